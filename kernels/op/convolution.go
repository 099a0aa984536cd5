package op

import "slices"

// Axis is one dimension of a convolution as a kernel computes it, which is the same for Conv2D and Conv2DGradInput: result i,
// which goes to place First + i*Step of dst, is the sum over taps t of
//
//	element Tap0 + t*TapStep of the kernel  *  element At0 + t*AtTap + i*AtStep of the input (0 outside of it)
//
// A convolution has one Axis for each dimension. Its transposition has as many as its stride: results whose distance is the
// stride meet the same elements of the kernel, others meet others.
type Axis struct {
	Size, First, Step   int
	Taps, Tap0, TapStep int
	At0, AtTap, AtStep  int
}

// Convolution is what a call of Conv2D, Conv2DGradInput or Conv2DGradWeight convolves.
type Convolution struct {
	Image, Result, Kernel        *View // [N, C, H, W], [N, O, OH, OW] and [O, C/Groups, KH, KW]
	Stride, Padding, Dilation    [2]int
	Groups, Channels, Outputs, N int // Channels and Outputs of one group
}

// ConvolutionOf reads a call.
func ConvolutionOf(c *Call) Convolution {
	var v Convolution
	switch c.Op {
	case Conv2D:
		v.Result, v.Image, v.Kernel = &c.Out[0], &c.In[0], &c.In[1]
	case Conv2DGradInput:
		v.Image, v.Result, v.Kernel = &c.Out[0], &c.In[0], &c.In[1]
	default:
		v.Kernel, v.Result, v.Image = &c.Out[0], &c.In[0], &c.In[1]
	}
	for d := range 2 {
		v.Stride[d], v.Padding[d], v.Dilation[d] = int(c.I[d]), int(c.I[2+d]), int(c.I[4+d])
	}
	v.Groups = int(c.I[6])
	v.N, v.Channels, v.Outputs = v.Image.Shape[0], v.Kernel.Shape[1], v.Kernel.Shape[0]/max(1, v.Groups)
	return v
}

// Forward is the Axis of dimension d (0 for rows, 1 for columns) of Conv2D.
func (v *Convolution) Forward(d int) Axis {
	return Axis{
		Size: v.Result.Shape[2+d], Step: 1, Taps: v.Kernel.Shape[2+d], TapStep: 1,
		At0: -v.Padding[d], AtTap: v.Dilation[d], AtStep: v.Stride[d],
	}
}

// Phases is how many phases of dimension d of Conv2DGradInput have places in the image: one for each place of a stride, or for
// each place of an image that is smaller.
func (v *Convolution) Phases(d int) int { return min(v.Stride[d], v.Image.Shape[2+d]) }

// Backward is Axis phase (below Phases) of dimension d of Conv2DGradInput. Place h of the image meets tap u where h +
// padding - u*dilation is a multiple of the stride: that multiple is the place in the result. Of the taps of one phase,
// neighbours are stride/g apart, where g is the greatest common divisor of stride and dilation.
func (v *Convolution) Backward(d, phase int) Axis {
	size, taps, stride, dilation := v.Image.Shape[2+d], v.Kernel.Shape[2+d], v.Stride[d], v.Dilation[d]
	g := divisor(stride, dilation)
	a := Axis{First: phase, Step: stride, TapStep: stride / g, AtTap: -dilation / g, AtStep: 1}
	if phase < size {
		a.Size = (size - phase + stride - 1) / stride
	}
	for ; a.Tap0 < min(taps, a.TapStep); a.Tap0++ {
		if at := phase + v.Padding[d] - a.Tap0*dilation; at%stride == 0 {
			a.At0 = at / stride
			a.Taps = (taps - a.Tap0 + a.TapStep - 1) / a.TapStep
			return a
		}
	}
	a.Tap0 = 0
	return a
}

// divisor is the greatest common divisor.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// checkConv compares the views of a convolution with each other. The size of the result is the caller's: it decides how much
// padding there is below and right of the image.
func checkConv(c *Call) error {
	for _, w := range [][]View{c.Out, c.In[:2]} {
		for i := range w {
			if w[i].NDim != 4 {
				return Errorf(c.Op, ErrCall, "shape %v, want four dimensions", w[i].dims())
			}
		}
	}
	for i, v := range c.I[:7] {
		if v < 1 && i != 2 && i != 3 {
			return Errorf(c.Op, ErrCall, "stride, padding, dilation and groups are %v", c.I[:7])
		}
	}
	v := ConvolutionOf(c)
	image, result, kernel := v.Image.dims(), v.Result.dims(), v.Kernel.dims()
	if image[0] != result[0] || image[1] != kernel[1]*v.Groups || result[1] != kernel[0] || kernel[0]%v.Groups != 0 {
		return Errorf(c.Op, ErrCall, "image %v, kernel %v of %d groups and result %v do not fit", image, kernel, v.Groups, result)
	}
	if len(c.In) == 3 && (c.In[2].NDim != 1 || c.In[2].Shape[0] != c.Out[0].Shape[1]) {
		return Errorf(c.Op, ErrCall, "the bias has shape %v, the output %v", c.In[2].dims(), c.Out[0].dims())
	}
	return nil
}

// checkPool compares image, results and numbers.
func checkPool(c *Call) error {
	image, result := &c.In[0], &c.Out[0]
	numbers := (*View)(nil)
	switch c.Op {
	case MaxPool2D:
		numbers = &c.Out[1]
	case MaxPool2DGrad:
		image, result, numbers = &c.Out[0], &c.In[0], &c.In[1]
	case AvgPool2DGrad:
		image, result = &c.Out[0], &c.In[0]
	}
	if err := checkImages(c, image, result); err != nil {
		return err
	}
	if numbers != nil && (numbers.DType.Size() == 8 || !numbers.DType.IsInteger() || !slices.Equal(numbers.dims(), result.dims())) {
		return Errorf(c.Op, ErrCall, "numbers are %s of shape %v, want uint8 or int32 of %v", numbers.DType, numbers.dims(), result.dims())
	}
	if c.I[0] != 0 && min(c.I[0], c.I[1], c.I[2], c.I[3]) < 1 {
		return Errorf(c.Op, ErrCall, "window and stride are %v", c.I[:4])
	}
	return nil
}

// checkSample compares images and results.
func checkSample(c *Call) error {
	image, result := &c.In[0], &c.Out[0]
	if c.Op == UpsampleNearest2DGrad || c.Op == UpsampleBilinear2DGrad {
		image, result = result, image
	}
	return checkImages(c, image, result)
}

// checkImages wants images of equal numbers of channels, the first not empty unless the second is.
func checkImages(c *Call, image, result *View) error {
	if image.NDim != 4 || result.NDim != 4 || !slices.Equal(image.Shape[:2], result.Shape[:2]) {
		return Errorf(c.Op, ErrCall, "image %v and result %v do not fit", image.dims(), result.dims())
	}
	if image.Len() == 0 && result.Len() > 0 {
		return Errorf(c.Op, ErrCall, "the image %v is empty, the result %v is not", image.dims(), result.dims())
	}
	return nil
}
