package tensor

// Pool are the arguments of pooling. Of Kernel (the size of the window), Stride, Padding and Dilation each is one number for all
// dimensions, or one for each; of the last three, nil stands for the size of the window, 0 and 1. Padding is at most half a
// window. With CeilMode the last window may reach over the image and its padding, if it begins inside them.
type Pool struct {
	Kernel, Stride, Padding []int
	CeilMode                bool

	Dilation []int // MaxPool alone

	ExcludePadding  bool // AvgPool alone: divide by the elements of the image in a window (count_include_pad=False)
	DivisorOverride int  // AvgPool alone: divide by this, if it is not 0

	adaptive []int
}

// Adaptive are the arguments of adaptive pooling: the size of the result, one number for all dimensions or one for each. Window
// i of n covers elements floor(i*size/n) to ceil((i+1)*size/n)-1.
func Adaptive(size ...int) Pool { return Pool{adaptive: append([]int{}, size...)} }

// pooling is pooling of two dimensions: those of one have rows of one element.
type pooling struct {
	dims                            int
	kernel, stride, padding, spread [2]int
	result                          [2]int
	adaptive                        bool
	last                            [2]int64 // I[6] and I[7]
	most                            int      // elements of the largest window
}

// resolve checks the arguments for an image.
func (p Pool) resolve(name string, dims int, image *layout, average bool) (pooling, error) {
	v := pooling{dims: dims, adaptive: p.adaptive != nil}
	if p.adaptive != nil {
		return v, v.adapt(name, p.adaptive, image)
	}
	var err error
	for _, a := range []struct {
		to             *[2]int
		what           string
		list           []int
		least, missing int
	}{
		{&v.kernel, "window", p.Kernel, 1, 1}, {&v.stride, "stride", p.Stride, 1, 1},
		{&v.padding, "padding", p.Padding, 0, 0}, {&v.spread, "dilation", p.Dilation, 1, 1},
	} {
		if *a.to, err = numbersOf(name, a.what, a.list, dims, a.least, a.missing); err != nil {
			return v, err
		}
	}
	if p.Stride == nil {
		v.stride = v.kernel
	}
	v.last = [2]int64{int64(v.spread[0]), int64(v.spread[1])}
	if average {
		v.last = [2]int64{1, int64(p.DivisorOverride)}
		if p.ExcludePadding {
			v.last[0] = 0
		}
	}
	switch {
	case len(p.Kernel) == 0:
		return v, valueErr(name, "no window")
	case average && p.Dilation != nil:
		return v, valueErr(name, "dilation %v: windows of averages have none", p.Dilation)
	case !average && (p.ExcludePadding || p.DivisorOverride != 0):
		return v, valueErr(name, "ExcludePadding and DivisorOverride are for averages")
	}
	v.most = v.kernel[0] * v.kernel[1]
	return v, v.slide(name, image, p.CeilMode)
}

// adapt sets the size of the result of adaptive windows.
func (v *pooling) adapt(name string, size []int, image *layout) error {
	var err error
	if len(size) == 0 {
		return valueErr(name, "no size")
	}
	v.result, err = numbersOf(name, "size", size, v.dims, 0, 1)
	v.most = 1
	for d, n := range v.result {
		if n > 0 {
			most := image.shape[2+d] / n
			if image.shape[2+d]%n != 0 {
				most += 2 // a window may begin and end in the middle of an element's share
			}
			v.most *= most
		}
	}
	return err
}

// slide sets the size of the result of sliding windows.
func (v *pooling) slide(name string, image *layout, ceil bool) error {
	for d := range 2 {
		size, reach := image.shape[2+d], v.spread[d]*(v.kernel[d]-1)+1
		if 2*v.padding[d] > reach {
			return valueErr(name, "padding %d is more than half of a window of %d", v.padding[d], reach)
		}
		room := size + 2*v.padding[d] - reach
		if ceil {
			room += v.stride[d] - 1
		}
		if room < 0 {
			return shapeErr(name, []Shape{image.dims()}, "the window of %d is larger than the padded image", reach)
		}
		v.result[d] = room/v.stride[d] + 1
		if ceil && (v.result[d]-1)*v.stride[d] >= size+v.padding[d] {
			v.result[d]--
		}
	}
	return nil
}

// numbers is the type of MaxPool's numbers: the smaller that holds all elements of a window.
func (v *pooling) numbers() DType {
	if v.most <= 256 {
		return Uint8
	}
	return Int32
}
