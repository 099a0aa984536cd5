package parallel

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Held is what a rank holds between steps, in bytes that are asked of the allocator: without what it rounds up to, which is less than 512 bytes for each tensor.
type Held struct {
	Parameters uint64 // the values: all of them, or with ZeRO 3 the rank's part
	Gradients  uint64 // from backward to ZeroGrad: all of them, or with ZeRO 2 and 3 the rank's part
	Master     uint64 // with MasterWeights: the rank's part of the values in float32
	State      uint64 // the optimizer's: with ZeRO of the rank's part
	Buffers    uint64 // of the model
	Frozen     uint64 // parameters that are not trained, which are not sharded

	// Gathered is what is there besides while units compute, with ZeRO 3: the model's own parameters, and the two units that follow each other and have most. A unit of which the model reads a
	// parameter by itself when that has run, as of an embedding that is the head too, is there longer, which a run on a simulated device tells.
	Gathered uint64
	// Bucket is what is there besides at most while backward fills a bucket, with ZeRO 2 and 3: the largest.
	Bucket uint64
}

// Total is what a rank holds when backward has ended, and the step was taken.
func (h Held) Total() uint64 {
	return h.Parameters + h.Gradients + h.Master + h.State + h.Buffers + h.Frozen
}

// Predict computes what a rank of a group will hold, by arithmetic on the shapes of a model, which needs no values. Parameters without values count as of type dt. state is how
// many tensors of a parameter's shape and type the optimizer keeps for each: 2 for Adam and AdamW, 1 for SGD with momentum. The options are those of Data, and what Data
// refuses, as a model that is too small for so many ranks, is its error here too.
//
// It is the table of the ZeRO paper (arXiv:1910.02054, figure 1 and section 5) with the bytes of the model's types in the place of 2 for parameters and gradients and of 12 for the optimizer's state, and
// what rounding the shards adds: each begins at a multiple of 16 bytes, and all of a bucket are as long.
func Predict(model nn.Module, dt tensor.DType, rank, ranks, state int, opts ...Option) (Held, error) {
	const op = "Predict"
	refuse := func(detail string) (Held, error) { return Held{}, &Error{Op: op, Rank: -1, Detail: detail} }
	switch why := isnil.Why("model", model); {
	case why != "":
		return refuse(why)
	case ranks < 1 || rank < 0 || rank >= ranks:
		return refuse(fmt.Sprintf("of %d ranks there is no rank %d", ranks, rank))
	case state < 0:
		return refuse("the number of the optimizer's tensors is negative")
	case !dt.IsFloat():
		return refuse("parameters are of a floating-point type, not " + dt.String())
	}
	d := &DataParallel{model: model, set: defaults()}
	for _, o := range opts {
		if o != nil {
			o(&d.set)
		}
	}
	if err := d.admitOptions(op); err != nil {
		return Held{}, err
	}
	if err := nn.Check(model); err != nil {
		return Held{}, err
	}
	h := Held{}
	for _, n := range nn.NamedBuffers(model) {
		bytes, err := bufferBytes(n, dt)
		if err != nil {
			return Held{}, err
		}
		h.Buffers += bytes
	}
	var entries []entry
	for _, n := range nn.NamedParameters(model) {
		if !n.Parameter.RequiresGrad() {
			h.Frozen += bytesOf(n, dt)
			continue
		}
		if err := d.masters(op, n, typeOf(n, dt)); err != nil {
			return Held{}, err
		}
		d.named = append(d.named, n)
		entries = append(entries, entry{name: n.Name, dtype: typeOf(n, dt), count: n.Parameter.Len()})
	}
	if err := d.someTrained(op); err != nil {
		return Held{}, err
	}
	flats, err := d.predicted(entries)
	if err != nil {
		return Held{}, err
	}
	if err := d.mayShard(op, flats, entries, ranks); err != nil {
		return Held{}, err
	}
	h.add(flats, entries, d.set, rank, ranks, uint64(state))
	return h, nil
}

// predicted is the layout that Data would make.
func (d *DataParallel) predicted(entries []entry) ([]flat, error) {
	if err := d.checkUnits("Predict"); err != nil {
		return nil, err
	}
	if d.set.stage < 3 {
		return bucketed(entries, reversed(len(entries)), d.set.first, d.set.rest, d.set.stage > 0), nil
	}
	units, err := d.unitList("Predict")
	if err != nil {
		return nil, err
	}
	owners := ownersOf(d.model)
	for i, n := range d.named {
		entries[i].unit = innermost(units, owners[n.Parameter])
	}
	return united(entries), nil
}

// add sums over the arrays of a layout.
func (h *Held) add(flats []flat, entries []entry, set settings, rank, ranks int, state uint64) {
	before, root := uint64(0), uint64(0)
	for i := range flats {
		f := &flats[i]
		size := uint64(f.dtype.Size())
		plain, whole, shard := uint64(f.bytes), uint64(f.padded(ranks))*size, uint64(f.shard(ranks))*size
		grads, own := shard, uint64(0)
		parts := f.parts(entries, rank, ranks)
		for _, p := range parts {
			own += uint64(p.count) * size
		}
		if wide := uint64(4); set.master && f.dtype != tensor.Float32 {
			grads, own = shard/size*wide, own/size*wide
			h.Master += grads
		}
		if set.stage == 1 && grads == shard { // not converted: the part is a view of the whole
			grads = whole
		}
		if len(parts) == 0 { // the shard is padding, and nobody has a view of its gradient
			grads = 0
		}
		switch set.stage {
		case 0:
			h.Parameters, h.Gradients, h.State = h.Parameters+plain, h.Gradients+plain, h.State+state*plain
			continue
		case 1, 2:
			h.Parameters, h.Gradients = h.Parameters+whole, h.Gradients+grads
		case 3:
			h.Parameters, h.Gradients = h.Parameters+shard, h.Gradients+grads
		}
		h.State += state * own
		if set.stage == 1 {
			continue
		}
		h.Bucket = max(h.Bucket, whole)
		if set.stage == 3 && f.unit == 0 {
			root += whole
		} else if set.stage == 3 {
			h.Gathered, before = max(h.Gathered, before+whole), whole
		}
	}
	h.Gathered += root
}

func typeOf(n nn.Named, dt tensor.DType) tensor.DType {
	if t := n.Parameter.Tensor(); t != nil {
		return t.DType()
	}
	if _, awaited, ok := n.Parameter.Awaited(); ok {
		return awaited
	}
	return dt
}

func bytesOf(n nn.Named, dt tensor.DType) uint64 {
	return uint64(n.Parameter.Len()) * uint64(typeOf(n, dt).Size())
}

// bufferBytes is bytesOf for a buffer, whose initializer knows the type: counters are int64 in every model. It is asked on a simulated device.
func bufferBytes(n nn.Named, dt tensor.DType) (uint64, error) {
	if n.Parameter.Tensor() != nil {
		return bytesOf(n, dt), nil
	}
	dev := sim.New(1 << 50)
	defer func() { _ = dev.Close() }() // it has nothing to give back
	e, err := tensor.On(dev, tensor.WithAllocator(memory.NewDirect(dev)))
	if err != nil {
		return 0, err
	}
	q, err := n.Parameter.Clone()
	if err != nil {
		return 0, err
	}
	defer q.Release()
	if err := q.Materialize(e, tensor.NewGenerator(0), dt); err != nil {
		return 0, err
	}
	return uint64(q.Len()) * uint64(q.Tensor().DType().Size()), nil
}
