package host

import (
	"strings"

	"github.com/cistern-ml/cistern/device"
)

// mostJoint is how many works run together at most: those who wait for the first of them wait for all.
const mostJoint = 32

// SubmitJoint enqueues w. If more such work waits behind it when its turn comes, what can runs together.
func (q *queue) SubmitJoint(operation string, w device.Joint) error {
	_, err := q.put(work{task: taskJoint, operation: operation, joint: w})
	return err
}

// run runs the first work of a batch, or the first few if they are joint, and says how many.
func (q *queue) run(batch []work) (n int, err error) {
	joint := batch[0].joint
	if joint == nil || len(batch) == 1 || batch[1].joint == nil {
		return 1, batch[0].run(q.device.id)
	}
	next := make([]device.Joint, 0, mostJoint)
	for i := 1; i < min(len(batch), mostJoint) && batch[i].joint != nil; i++ {
		next = append(next, batch[i].joint)
	}
	n = joint.Joins(next)
	if n == 0 {
		return 1, batch[0].run(q.device.id)
	}
	operation := names(batch[:n+1])
	return n + 1, call(q.device.id, operation, func() error { return joint.Run(next[:n]) })
}

// names are those of works that run together, as in "mul+add+tanh".
func names(batch []work) string {
	var b strings.Builder
	for i := range batch {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(batch[i].operation)
	}
	return b.String()
}
