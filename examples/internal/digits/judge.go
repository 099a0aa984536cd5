package digits

import (
	"errors"
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// Judge tells how far images are from real digits. It is a classifier of those, and compares what it sees in both: the mean and the covariance of the
// features before its last layer, by the Fréchet distance of the normal distributions that have them, as the FID of Heusel and others (2017) does with
// the features of another network. A generator that draws one good digit over and over is far away too.
type Judge struct {
	dev      device.Device
	check    func() error
	features *nn.SequentialModule
	head     *nn.LinearLayer
	side     int
	real     *moments
}

// features is how many numbers are compared.
const features = 24

// judged is how many images are looked at in a graph.
const judged = 500

// NewJudge trains a classifier on a set for a short time, and looks at the real images of another one. It asks check before each batch, then
// and later, and ends with its error. The caller releases it.
func NewJudge(dev device.Device, train, real Set, seed uint64, check func() error) (*Judge, error) {
	pixels := train.Side * train.Side
	j := &Judge{
		dev: dev, check: check, side: train.Side,
		features: nn.Sequential(nn.Linear(pixels, 96), nn.ReLU(), nn.Linear(96, features), nn.Tanh()),
		head:     nn.Linear(features, dataset.Classes),
	}
	err := errors.Join(j.features.To(dev, nn.Seed(seed)), j.head.To(dev, nn.Seed(seed+1)))
	if err == nil {
		err = j.train(train, seed)
	}
	if err == nil {
		j.real, err = j.look(real.Pixels)
	}
	if err != nil {
		j.Release()
		return nil, err
	}
	return j, nil
}

// Release gives the classifier's memory back.
func (j *Judge) Release() {
	j.features.Release()
	j.head.Release()
}

func (j *Judge) train(train Set, seed uint64) error {
	opt := optim.AdamW(append(j.features.Parameters(), j.head.Parameters()...), optim.LR(3e-3))
	defer opt.Release()
	set, err := data.Slices(train.Pixels, []int{train.Side * train.Side}, train.Labels, nil)
	if err != nil {
		return err
	}
	batches := data.NewLoader(j.dev, set, 100, data.Shuffle(tensor.NewGenerator(seed)))
	for range 3 {
		for x, y := range batches.Batches() {
			if err := j.check(); err != nil {
				return err
			}
			if err := j.step(opt, x, y); err != nil {
				return err
			}
		}
		if err := batches.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (j *Judge) step(opt *optim.Grouped, x, y *tensor.Tensor) error {
	g := autograd.NewGraph(j.dev)
	defer g.Release()
	loss := j.head.Forward(j.features.Forward(g.Input(x))).CrossEntropy(g.Input(y))
	if err := loss.Backward(); err != nil {
		return err
	}
	if err := opt.Step(); err != nil {
		return err
	}
	opt.ZeroGrad()
	return nil
}

// Distance is that of images, Side*Side numbers each, from real digits: 0 if the features have the same mean and covariance.
func (j *Judge) Distance(pixels []float32) (float64, error) {
	m, err := j.look(pixels)
	if err != nil {
		return 0, err
	}
	return m.distance(j.dev, j.real)
}

// Distances says what a judge has found, for a table: before training, after it, and of real digits. 0 is what was not asked any more, after
// Ctrl-C.
func Distances(first, last, real float64) string {
	say := func(d float64) string {
		if d == 0 {
			return "none"
		}
		return fmt.Sprintf("%.3f", d)
	}
	text := fmt.Sprintf("%s at first, %s at last, %s of real ones", say(first), say(last), say(real))
	if first*last*real == 0 {
		text += ": interrupted"
	}
	return text
}

// look is what the classifier sees in images.
func (j *Judge) look(pixels []float32) (*moments, error) {
	m, size := newMoments(features), j.side*j.side
	for len(pixels) > 0 {
		if err := j.check(); err != nil {
			return nil, err
		}
		n := min(judged*size, len(pixels))
		seen, err := j.see(pixels[:n], n/size)
		if err != nil {
			return nil, err
		}
		m.add(seen)
		pixels = pixels[n:]
	}
	m.finish()
	return m, nil
}

func (j *Judge) see(pixels []float32, n int) ([]float64, error) {
	g := autograd.NewGraph(j.dev, autograd.NoGrad())
	defer g.Release()
	return j.features.Forward(autograd.FromSlice(g, pixels, n, j.side*j.side)).Float64s()
}

// moments are the mean and the covariance of vectors.
type moments struct {
	n          int
	mean       []float64
	covariance []float64 // row-major
}

func newMoments(size int) *moments {
	return &moments{mean: make([]float64, size), covariance: make([]float64, size*size)}
}

// add adds vectors, one after the other; until finish the fields are sums.
func (m *moments) add(vectors []float64) {
	k := len(m.mean)
	for ; len(vectors) > 0; vectors = vectors[k:] {
		m.n++
		for i, v := range vectors[:k] {
			m.mean[i] += v
			for l, w := range vectors[:k] {
				m.covariance[i*k+l] += v * w
			}
		}
	}
}

func (m *moments) finish() {
	k, n := len(m.mean), float64(m.n)
	for i := range m.mean {
		m.mean[i] /= n
	}
	for i := range m.covariance {
		m.covariance[i] = m.covariance[i]/n - m.mean[i/k]*m.mean[i%k]
	}
}

// distance is |m1 - m2|^2 + tr(c1 + c2 - 2 (c1 c2)^(1/2)). The trace of the root is the sum of the roots of the eigenvalues of r c2 r, where r is the
// root of c1.
func (m *moments) distance(dev device.Device, o *moments) (float64, error) {
	k, d := len(m.mean), 0.0
	for i := range m.mean {
		d += (m.mean[i]-o.mean[i])*(m.mean[i]-o.mean[i]) + m.covariance[i*k+i] + o.covariance[i*k+i]
	}
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	root, err := m.root(g)
	if err != nil {
		return 0, err
	}
	product, err := root.MM(autograd.FromSlice(g, o.covariance, k, k)).MM(root).Take()
	if err != nil {
		return 0, err
	}
	defer product.Release()
	values, vectors, err := linalg.Eigh(product)
	if err != nil {
		return 0, err
	}
	defer values.Release()
	defer vectors.Release()
	eigenvalues, err := values.Float64s()
	for _, v := range eigenvalues {
		d -= 2 * math.Sqrt(max(v, 0))
	}
	return max(d, 0), err
}

// root is the symmetric root of the covariance.
func (m *moments) root(g *autograd.Graph) (*autograd.Variable, error) {
	k := len(m.mean)
	c, err := autograd.FromSlice(g, m.covariance, k, k).Take()
	if err != nil {
		return nil, err
	}
	defer c.Release()
	values, vectors, err := linalg.Eigh(c)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	defer vectors.Release()
	q := g.Input(vectors)
	return q.Mul(g.Input(values).Clamp(0, math.Inf(1)).Sqrt()).MM(q.T()), nil
}
