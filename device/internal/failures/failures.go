// Package failures keeps the errors of a stream's work until somebody who waits for that work is told.
package failures

// limit is how many errors are kept. A program that ignores all of them for so long learns of the first ones.
const limit = 16

// List holds the errors of one stream in stream order. A position counts what was enqueued on the stream: the first piece of
// work has position 1. The zero List is empty and ready to use; its user locks it.
type List struct {
	list []failure
}

type failure struct {
	position uint64
	err      error
}

// Add keeps the error of the work at position, which is not before that of an earlier call.
func (l *List) Add(position uint64, err error) {
	if len(l.list) < limit {
		l.list = append(l.list, failure{position, err})
	}
}

// Take returns the first error among the work up to and including position, and forgets all errors up to there: what
// follows a failed operation usually fails because of it.
func (l *List) Take(position uint64) error {
	n := 0
	for n < len(l.list) && l.list[n].position <= position {
		n++
	}
	if n == 0 {
		return nil
	}
	err := l.list[0].err
	rest := copy(l.list, l.list[n:])
	clear(l.list[rest:])
	l.list = l.list[:rest]
	return err
}
