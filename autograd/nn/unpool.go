package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// MaxPoolIndicesModule is MaxPool1d or MaxPool2d that says which elements it took, for a MaxUnpoolModule.
type MaxPoolIndicesModule struct {
	Base
	text string
	pool tensor.Pool
	f    func(x *autograd.Variable, p tensor.Pool) (values, indices *autograd.Variable)
}

// MaxPool1dIndices is MaxPool1d with return_indices=True: its Forward gives the indices too.
func MaxPool1dIndices(kernel int, opts ...PoolOption) *MaxPoolIndicesModule {
	return maxPoolIndices("MaxPool1d", kernel, opts, (*autograd.Variable).MaxPool1dIndices)
}

// MaxPool2dIndices is MaxPool2d with return_indices=True: its Forward gives the indices too.
func MaxPool2dIndices(kernel int, opts ...PoolOption) *MaxPoolIndicesModule {
	return maxPoolIndices("MaxPool2d", kernel, opts, (*autograd.Variable).MaxPool2dIndices)
}

func maxPoolIndices(name string, kernel int, opts []PoolOption, f func(*autograd.Variable, tensor.Pool) (values, indices *autograd.Variable)) *MaxPoolIndicesModule {
	plain := maxPool(name, kernel, opts, nil) // has the description, and what is wrong with the options
	m := &MaxPoolIndicesModule{Base: Base{listed: true}, text: plain.text, pool: poolOf(kernel, opts).Pool, f: f}
	if plain.wrong != nil {
		m.mistaken(plain.wrong)
	}
	return m
}

// Forward pools x. Of each result indices has the place of its element in the image, int64.
func (m *MaxPoolIndicesModule) Forward(x *autograd.Variable) (values, indices *autograd.Variable) {
	if m == nil || m.f == nil {
		failed := x.Graph().Refuse("forward", nilLayer[MaxPoolIndicesModule](), x)
		return failed, failed
	}
	m.Scopes(x, func(*autograd.Graph) []*autograd.Variable {
		values, indices = m.f(x, m.pool)
		return []*autograd.Variable{values, indices}
	})
	return values, indices
}

// String is PyTorch's description.
func (m *MaxPoolIndicesModule) String() string {
	if m == nil {
		return "nil"
	}
	return m.text
}

// MaxUnpoolModule puts elements back where a MaxPoolIndicesModule has taken them.
type MaxUnpoolModule struct {
	Base
	dims int
	pool tensor.Pool
}

// MaxUnpool1d makes the inverse of MaxPool1d, which takes [N, C, L] or [C, L] and the indices of MaxPool1dIndices. Its options are Stride, which is the
// window's size unless it is given, Padding and KernelSize, those of the pooling.
func MaxUnpool1d(kernel int, opts ...WindowOption) *MaxUnpoolModule {
	return maxUnpool("MaxUnpool1d", 1, kernel, opts)
}

// MaxUnpool2d makes the inverse of MaxPool2d, which takes [N, C, H, W] or [C, H, W] and the indices of MaxPool2dIndices. See MaxUnpool1d.
func MaxUnpool2d(kernel int, opts ...WindowOption) *MaxUnpoolModule {
	return maxUnpool("MaxUnpool2d", 2, kernel, opts)
}

func maxUnpool(name string, dims, kernel int, opts []WindowOption) *MaxUnpoolModule {
	p := pool{Pool: tensor.Pool{Kernel: []int{kernel}}}
	for _, o := range opts {
		o.changePool(&p)
	}
	if len(p.Stride) == 0 {
		p.Stride = p.Kernel
	}
	m := &MaxUnpoolModule{Base: Base{listed: true}, dims: dims, pool: p.Pool}
	m.refuseForeign(&p.given, name, "")
	for what, list := range map[string][]int{"kernel": p.Kernel, "stride": p.Stride, "padding": p.Padding} {
		if len(list) > 1 && len(list) != dims {
			m.mistaken(argumentErr(name, "%d numbers of the %s; one is needed, or %d", len(list), what, dims))
		}
	}
	return m
}

// Forward puts the elements of x at the places that indices says, and zeros else. The result has the given size, one number for each dimension, as
// output_size of PyTorch has it; without one it is that of which the windows leave nothing over.
func (m *MaxUnpoolModule) Forward(x, indices *autograd.Variable, size ...int) *autograd.Variable {
	return within(m, x, func(g *autograd.Graph) *autograd.Variable {
		if m.dims == 0 {
			return g.Refuse("max_unpool", nilLayer[MaxUnpoolModule](), x, indices)
		}
		if x.Alive() && (x.NDim() < m.dims+1 || x.NDim() > m.dims+2) {
			return g.Refuse("max_unpool", shapeError(m.String(), x, "%s; want %d or %d", dimensions(x.NDim()), m.dims+1, m.dims+2), x, indices)
		}
		if !x.Alive() {
			return x
		}
		size, err := m.sizes(x, size)
		if err != nil {
			return g.Refuse("max_unpool", err, x, indices)
		}
		if m.dims == 1 {
			return x.MaxUnpool1d(indices, size[0])
		}
		return x.MaxUnpool2d(indices, size[0], size[1])
	})
}

// sizes are those of the result: the default ones, or given ones that are less than a stride away from these.
func (m *MaxUnpoolModule) sizes(x *autograd.Variable, given []int) ([]int, error) {
	if len(given) > 0 && len(given) != m.dims {
		return nil, argumentErr(m.String(), "%d sizes of the result; want %d", len(given), m.dims)
	}
	at := func(list []int, d, missing int) int {
		if len(list) == 0 {
			return missing
		}
		return list[min(d, len(list)-1)]
	}
	all := make([]int, m.dims)
	for d := range all {
		stride := at(m.pool.Stride, d, 1)
		all[d] = (x.Dim(d-m.dims)-1)*stride + at(m.pool.Kernel, d, 1) - 2*at(m.pool.Padding, d, 0)
		if len(given) > 0 {
			if given[d] <= all[d]-stride || given[d] >= all[d]+stride {
				return nil, argumentErr(m.String(), "the size is %v; along dimension %d it must be between %d and %d", given, d, all[d]-stride+1, all[d]+stride-1)
			}
			all[d] = given[d]
		}
	}
	return all, nil
}

// String is PyTorch's description.
func (m *MaxUnpoolModule) String() string {
	if m == nil {
		return "nil"
	}
	if m.dims == 0 {
		return "MaxUnpool"
	}
	return fmt.Sprintf("MaxUnpool%dd(kernel_size=%s, stride=%s, padding=%s)", m.dims, tuple(m.pool.Kernel, m.dims, 1), tuple(m.pool.Stride, m.dims, 1),
		tuple(m.pool.Padding, m.dims, 0))
}

// LPPool1d is the root of degree norm of the sum of the powers of each window of [N, C, L] or [C, L]. Its options are Stride, which is the window's size
// unless it is given, CeilMode and KernelSize.
func LPPool1d(norm float64, kernel int, opts ...PoolOption) *FuncModule {
	return lpPool("LPPool1d", norm, kernel, opts, (*autograd.Variable).LPPool1d)
}

// LPPool2d is LPPool1d of [N, C, H, W] or [C, H, W].
func LPPool2d(norm float64, kernel int, opts ...PoolOption) *FuncModule {
	return lpPool("LPPool2d", norm, kernel, opts, (*autograd.Variable).LPPool2d)
}

func lpPool(name string, norm float64, kernel int, opts []PoolOption, f func(*autograd.Variable, float64, tensor.Pool) *autograd.Variable) *FuncModule {
	p := poolOf(kernel, opts)
	stride, ceil := "None", "False"
	if len(p.Stride) > 0 {
		stride = plain(p.Stride, 1)
	}
	if p.CeilMode {
		ceil = "True"
	}
	text := fmt.Sprintf("%s(norm_type=%v, kernel_size=%s, stride=%s, ceil_mode=%s)", name, norm, plain(p.Kernel, 1), stride, ceil)
	return p.module(name, "", text, func(x *autograd.Variable, p tensor.Pool) *autograd.Variable { return f(x, norm, p) })
}
