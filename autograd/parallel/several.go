package parallel

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device/comm"
)

// Several models may be trained on one communicator, as those of a GAN. Their collectives may be of one size, so that a rank which comes to another model first would sum its gradients with those of the wrong one: where groups
// compare the ranks' calls, the tags say which model a call is for. Models are numbered in the order of Data, by an agreement of all ranks.

// onComm is what is known of the models of a communicator, as long as one of them is open here.
type onComm struct {
	open int          // under the lock of models
	last atomic.Int64 // the largest number of them
}

// models has those of this process. Only Data and Close write to it.
var models struct {
	sync.Mutex
	by map[any]*onComm
}

// ofComm is what a communicator is known by: itself, or its device where a program has wrapped it into what cannot be compared.
func ofComm(c comm.Comm) any {
	if reflect.ValueOf(c).Comparable() {
		return c
	}
	return c.Device().ID()
}

// lastNumber is the largest number of a model that is open here, 0 if there is none.
func lastNumber(c comm.Comm) int64 {
	models.Lock()
	defer models.Unlock()
	if m := models.by[ofComm(c)]; m != nil {
		return m.last.Load()
	}
	return 0
}

// enrol gives the model the number that comes after those that the ranks have told: so it is another one than that of any model which is open anywhere, whenever ranks close theirs.
func (d *DataParallel) enrol(told []int64) {
	models.Lock()
	defer models.Unlock()
	at := ofComm(d.comm)
	if models.by == nil {
		models.by = map[any]*onComm{}
	}
	m := models.by[at]
	if m == nil {
		m = new(onComm)
		models.by[at] = m
	}
	d.among, d.number = m, slices.Max(told)+1
	m.open++
	m.last.Store(max(m.last.Load(), d.number))
}

// retire takes the model away again.
func (d *DataParallel) retire() {
	if d.among == nil {
		return
	}
	models.Lock()
	defer models.Unlock()
	if d.among.open--; d.among.open == 0 {
		delete(models.by, ofComm(d.comm))
	}
	d.among = nil
}

// tag says what a collective is for: the model too, if there are several. That is so on all ranks from the same call on, that of Data for the second one.
func (d *DataParallel) tag(op string) string {
	if d.among == nil || d.among.last.Load() < 2 {
		return op
	}
	return fmt.Sprintf("model %d: %s", d.number, op)
}
