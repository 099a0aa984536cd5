package checkpoint

import (
	"context"
	"io"
	"os"
)

// stream is a file that may make its reader wait, at opening already. A goroutine does both, so that nobody waits for longer than a
// context says.
type stream struct {
	*io.PipeReader
	name string
}

// Name is for errors.
func (s stream) Name() string { return s.name }

// readStream is ReadFile of a file that is not a regular one.
func (c *Checkpoint) readStream(ctx context.Context, path string) error {
	r, w := io.Pipe()
	defer context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })()
	done, end := context.WithCancel(context.Background())
	defer end()
	defer context.AfterFunc(ctx, end)()
	go feed(done, path, w)
	defer r.Close() // what feed has read in vain is lost
	return c.Read(ctx, stream{r, path})
}

// feed copies the file to w until done.
func feed(done context.Context, path string, w *io.PipeWriter) {
	f, err := os.Open(path)
	if err != nil {
		w.CloseWithError(err)
		return
	}
	defer f.Close()
	defer context.AfterFunc(done, func() { f.Close() })() // ends a read that waits
	_, err = io.Copy(w, f)
	if done.Err() == nil { // else it is the error of the context, or of Read
		w.CloseWithError(err)
	}
}
