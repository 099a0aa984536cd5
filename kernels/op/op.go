// Package op is what kernels and their callers agree on: the operations (this file), the View of a tensor's memory, and
// the Call that carries one launch. It is a leaf of the kernels tree: kernels/cpu and kernels/cuda implement what is
// written here, package kernels chooses between them, package tensor fills in the calls.
//
// The comment of each operation is its specification: which views it takes, in which order, of which types and shapes,
// and what the scalars mean. "dst" is Call.Out[0]; "a, b, c" are Call.In[0..2]; F and I are the scalars of the Call.
//
// Common rules:
//   - A kernel never allocates device memory, never changes an input, and writes every element of each output.
//   - Element-wise operations: all views have the shape of dst; broadcasting is a stride of 0 in an input. Inputs may
//     have any strides; so may outputs, as long as no two elements share an address.
//   - An output may be the same memory as an input of element-wise operations if pointer, strides and type are equal.
//   - Float16 and BFloat16 are computed in float32 and rounded to nearest even once, at the end; Float32 sums
//     accumulate in float32 or better; integers wrap.
//   - Empty views (a dimension of 0) are legal everywhere and do nothing, except that reductions over nothing give their
//     neutral element (Sum 0; Mean NaN). Max, Min, ArgMax and ArgMin over nothing are refused by package tensor.
package op

// ID is an operation.
type ID uint16

// "float types" below are Float32, Float64, Float16 and BFloat16; "all types" are those plus Int64, Int32, Uint8, Bool.
const (
	Invalid ID = iota

	// ---- filling and copying --------------------------------------------------------------------------------------

	// Fill: dst = F[0], or I[0] for integer types and Bool (0 or 1). All types, any strides.
	Fill
	// Copy: dst = a, same type, any strides on both sides. All types.
	Copy
	// Cast: dst = a converted to dst's type. All types to all types. Float to integer truncates toward zero (NaN and
	// out-of-range values give any value); anything to Bool is "not equal to 0"; float to float rounds to nearest even.
	Cast
	// CastMany: Cast of I[0] tensors at once, from Float32 to one half type: Out are the results, In what they are made of, in the same order.
	// Each pair is contiguous and of one size.
	CastMany
	// Arange: dst (one dimension) element i = start + i*step; F[0], F[1] for float types, I[0], I[1] for integer types.
	Arange
	// Uniform: dst = F[0] + u*(F[1]-F[0]) with u in [0, 1) from Philox4x32-10 with key I[0] and counter offset I[1]; but F[2], a number of
	// dst's type, where it is more, so that nothing is rounded to F[1].
	// Float types. dst is contiguous. Element i uses word i%4 of block I[1]+i/4; see philox.go in kernels/cpu. If a view of two Int64
	// follows the inputs, the key is its first element instead, and its second is added to the counter offset: so work captured in a graph
	// draws other numbers in each replay. See RandomOperand.
	Uniform
	// Normal: dst = F[0] + F[1]*n with n standard normal by Box-Muller on the words of Philox, as Uniform.
	Normal
	// Bernoulli: dst = 1 where the uniform of the same element is < F[0], else 0. Float types and Bool.
	Bernoulli
	// Dropout: dst = a * F[1] where the uniform of the same element is < F[0], else a * 0. Float types; a and dst are contiguous, of
	// one shape, and may be the same memory. The same call on a gradient is its gradient: no mask is kept. I as Uniform.
	Dropout

	// ---- element-wise operations that are not made of the table of internal/elementwise; the others are in elementwise_gen.go ---

	// Where: dst = a (Bool) ? b : c. b, c and dst have one type. All types
	Where

	// The losses of elements: a is the prediction, b the target. Float types.

	SquaredError // (a - b)**2
	// SmoothL1: with d = |a - b|: F[1]*d*d/(2*F[0]) where d < F[0], else F[1]*(d - F[0]/2). F[0] is at least 0, and 0 gives F[1]*d.
	SmoothL1
	BCE       // -(b*max(log(a), -100) + (1-b)*max(log(1-a), -100))
	BCELogits // log(1+exp(-a)) + (1-b)*a, without overflow: the BCE of sigmoid(a)
	KLDiv     // b*(log(b) - a), and 0 where b is 0; if F[0] is not 0, b is a logarithm itself: exp(b)*(b - a)

	// The gradients of the losses of elements with respect to the prediction: a is the gradient of the loss, b the prediction, c
	// the target; scalars as the loss has them. Float types.

	SquaredErrorGrad // a*2*(b - c)
	SmoothL1Grad     // a*F[1]*(d/F[0], but at most 1 and at least -1) with d = b - c; the sign of d if F[0] is 0 or less, which is 0 for NaN if F[0] is less
	BCEGrad          // a*(b - c)/max((1-b)*b, 1e-12), where 1e-12 is that of float32
	BCELogitsGrad    // a*(sigmoid(b) - c)
	KLDivGrad        // -a*c, or -a*exp(c) if F[0] is not 0

	// ---- reductions: dst has a's rank; the reduced dimensions are those where dst's shape is 1 and a's is not (if a's is 1
	// too it makes no difference). Any strides. --------------------------------------------------------------------------

	Sum    // float types; integer types and Bool sum into an Int64 dst
	Mean   // float types
	Prod   // float types; integer types into an Int64 dst
	Max    // Float and integer types; NaN wins
	Min    // Float and integer types; NaN wins
	ArgMax // dst is Int64, one reduced dimension, given by I[0]; the first of equal values; NaN wins. Float and integer types
	ArgMin // likewise
	Any    // Bool to Bool
	All    // Bool to Bool

	Norm1        // sum of |a|. Float types
	Norm2        // square root of the sum of squares. Float types
	MeanSquare   // mean of the squares. Float types
	NormMax      // the largest |a|, NaN wins, 0 for nothing. Float types
	NormMin      // the least |a|, NaN wins. Float types
	CountNonzero // how many a are not 0 (NaN is not), an Int64 dst. All types
	LogSumExp    // log(sum(exp(a))) relative to the largest a; infinities as the formula has them. Float types

	// AddMixed: dst = a + b, where a is of a half type, and b and dst, which may be b's memory, are Float32. All are contiguous and of one shape.
	AddMixed

	// ---- matrix products --------------------------------------------------------------------------------------------

	// MatMul: dst[..., M, N] = F[0] * a[..., M, K] @ b[..., K, N] + F[1] * c, where c has dst's shape (broadcast by strides)
	// and is only there, and only read, if F[1] != 0. Batch dimensions of a and b are already broadcast to dst's. Any
	// strides, so a transposed operand is only a view. dst must not overlap an input, except that c may be dst exactly.
	// Float types, one type for all views. K = 0 gives F[1]*c.
	MatMul
	// MatMulAct: dst = f(pre) with pre = F[0] * a @ b + F[1] * c, for matrices: as MatMul, but without a batch. f is I[0]: ActNone,
	// ActReLU, ActGELU or ActGELUTanh, each as the operation of that name. Out is dst, and pre if the caller wants it too, of dst's
	// shape and type. f is applied to pre before or after it is rounded to that type.
	MatMulAct
	// LinearWeightGrad: the gradients of a linear layer's weight and, if the second output is there, of its bias: dst [N, K] = aᵀ @ b, where
	// a [M, N] is the gradient of the layer's result and b [M, K] its input. Both outputs are of the type that a is computed with: the
	// product of half types is summed in float32 and not rounded. The bias's [N] is the sum down a's columns, which may be rounded to a's
	// type. Any strides; M = 0 gives zeros.
	LinearWeightGrad

	// ---- softmax and losses; rows are along the last dimension ------------------------------------------------------

	Softmax        // float types; a and dst of one shape, computed relative to the row's maximum
	SoftmaxGrad    // dst = b*(a - sum(a*b)); a is the gradient, b the output of Softmax
	LogSoftmax     // float types
	LogSoftmaxGrad // dst = a - exp(b)*sum(a); a is the gradient, b the output of LogSoftmax
	// NLL: a is [N, C] log-probabilities (float types), b is [N] classes (Int64), dst is [N]: -a[n, b[n]], and 0 where b[n]
	// equals I[0] (ignore index). A class outside 0..C-1 that is not the ignore index makes the operation fail.
	NLL
	// NLLGrad: dst [N, C] from a [N] (the gradient of each row's loss) and b [N] classes: -a[n] at class b[n], else 0; rows
	// with the ignore index are 0.
	NLLGrad

	// ---- convolutions; images are [N, C, H, W], kernels [O, C/groups, KH, KW], all of one float type. I = stride, padding and
	// dilation, each of rows and then of columns, then groups. The padding is what lies above and left of the image; how
	// much is below and right of it follows from the shapes. What lies outside of the image counts as 0. Views may have any
	// strides; dst overlaps no input. See convolution.go. ------------------------------------------------------------------

	// Conv2D: dst[n, o, y, x] = c[o] + sum over i, u, v of a[n, i0+i, y*stride-padding+u*dilation, likewise x] * b[o, i, u, v],
	// where i0 is the first channel of o's group. The bias c, [O], may be left out.
	Conv2D
	// Conv2DGradInput is the transposed convolution: dst [N, C, H, W] from a [N, O, OH, OW], the gradient of Conv2D's result,
	// and the kernel b: each element of dst is the sum of a[n, o, y, x]*b[o, i, u, v] over all that Conv2D multiplies it
	// with. The bias c, [C], is added to each channel; it may be left out.
	Conv2DGradInput
	// Conv2DGradWeight: dst [O, C/groups, KH, KW] from a [N, O, OH, OW], the gradient of Conv2D's result, and its input b
	// [N, C, H, W]: the sum of a[n, o, y, x] * b[n, i, ...] over all places where Conv2D multiplies with that element of the
	// kernel.
	Conv2DGradWeight

	// ---- pooling; images are [N, C, H, W], results [N, C, OH, OW], of one float type. I = size of the window, stride and
	// padding, each of rows and then of columns; then as each says. Window y covers rows y*stride-padding+u*dilation for u
	// below the size; a size of 0 (of rows) stands for adaptive windows: y covers rows floor(y*H/OH) to
	// ceil((y+1)*H/OH)-1. What lies outside of the image is no part of a window. -------------------------------------------

	// MaxPool2D: Out = dst, and which element of its window each came from: the number u*KW+v (of adaptive windows, u*width+v),
	// Uint8 or Int32, whichever can hold it. I[6], I[7] = dilation. NaN wins, else the first of equal values; a window without
	// elements gives -Inf and number 0.
	MaxPool2D
	// MaxPool2DGrad: dst [N, C, H, W] from a [N, C, OH, OW], the gradient of MaxPool2D's result, and its numbers b: the sum of
	// those elements of a that came from there. I as MaxPool2D.
	MaxPool2DGrad
	// AvgPool2D: dst = sum of the window / divisor, where the divisor is I[7] if that is not 0; else the number of elements
	// of the window within the image or, if I[6] is not 0, within the image and its padding (which is then as wide below and
	// right). A window without elements gives 0. Adaptive windows have no padding.
	AvgPool2D
	// AvgPool2DGrad: dst [N, C, H, W] from a [N, C, OH, OW]: the sum of a/divisor of the windows of each element. I as AvgPool2D.
	AvgPool2DGrad

	// ---- resampling; images are [N, C, H, W], results [N, C, OH, OW], of one float type. F[0], F[1] = the distance of
	// neighbouring results in rows and columns of the image. Places are computed in the type of computation. --------------

	// UpsampleNearest2D: dst[.., y, x] = a[.., min(floor(y*F[0]), H-1), likewise x], with the products rounded to float32 for
	// all types, as PyTorch does.
	UpsampleNearest2D
	// UpsampleNearest2DGrad: dst [N, C, H, W] from a [N, C, OH, OW]: the sum of those elements of a that took from there.
	UpsampleNearest2DGrad
	// UpsampleBilinear2D: dst is interpolated between the four elements of a around row y*F[0] if I[0] is not 0 (corners
	// aligned), else max((y+0.5)*F[0]-0.5, 0), and likewise columns; beyond the last row or column it is that one.
	UpsampleBilinear2D
	// UpsampleBilinear2DGrad: dst [N, C, H, W] from a [N, C, OH, OW]: the sum of a times the weight with which UpsampleBilinear2D
	// took from there. I as UpsampleBilinear2D.
	UpsampleBilinear2DGrad
	// CrossEntropy: the loss of rows of logits against classes, computed relative to each row's maximum. Out: loss [N];
	// lse [2, N], which holds m[n] = max(a[n, :]) and then l[n] = log(sum(exp(a[n, :] - m[n]))), apart because their sum would
	// round l away where m is large; and weight [N]. lse and weight are contiguous, and all three of the type of computation (Float32 for half
	// precision, else a's). In: a [N, C] logits (float types), b [N] classes (Int64), and perhaps w [C] weights of a's type. With
	// s = F[0], c = b[n], and weights of 1 if there are none,
	//
	//	loss[n] = (1-s)*w[c]*(l[n] + (m[n] - a[n, c])) + s/C * sum over j of w[j]*(l[n] + (m[n] - a[n, j])),   weight[n] = w[c]
	//
	// and loss and weight are 0 where c is I[0] (ignore index); lse is computed for all rows. The second term is left out if s
	// is 0. A class outside 0..C-1 that is not the ignore index makes the operation fail.
	CrossEntropy
	// CrossEntropyGrad: dst [N, C] from g [N] (the gradient of each row's loss, of the type of computation), a [N, C], b [N], lse [2, N] as CrossEntropy left
	// it, and perhaps w [C]; scalars as CrossEntropy. dst may be the memory of a. With p = exp((a[n, j] - m[n]) - l[n]),
	//
	//	dst[n, j] = g[n] * (((1-s)*w[c] + s/C*sum(w))*p - (1-s)*w[c]*(j is c) - s/C*w[j])
	//
	// and 0 in rows with the ignore index, whatever a is there.
	CrossEntropyGrad

	// ---- attention --------------------------------------------------------------------------------------------------

	// Attention: dst = (softmax(score) * keep) @ v for each of B batches and H heads, where score = F[0] * q @ kᵀ + mask, computed
	// tile by tile: the matrix of scores is never stored. Out: dst [B, H, T, E] of any strides, and lse [B, H, T], the
	// logarithm of the sum of each row's exponentials, contiguous and of the type of computation (Float32 for half precision).
	// In: q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] of one float type and any strides, and perhaps mask [B, H, T, S]. H is a
	// multiple of G: head h of q goes with head h/(H/G) of k and v. T, S, D and E are at most 2^30, D and E at most 1024.
	//
	// A mask of type Bool leaves a key out where it is false; one of the type of q is added to the scores. I[0] not 0: row t
	// sees the keys 0..t only; then there is no mask. What a key holds that a row does not see has no effect on that row, if
	// it is finite. A row without keys, or whose scores are all -infinity, is 0, and its lse -infinity.
	//
	// F[1] is the probability of dropout, in 0..1. If it is not 0, keep is 0 or 1/(1-F[1]): the latter where u < 1-F[1], with the u
	// of Float32 (philox.go in kernels/cpu) of word s%4 of block I[2] + r*ceil(S/4) + s/4, for row r = (b*H+h)*T+t and key s;
	// the key of Philox is I[1]. lse is that of the scores before dropout. If I[3] is not 0, the last input is a view of two Int64 as that of
	// Uniform: see AttentionSeed.
	//
	// Half precision is computed in Float32; the probabilities, and in AttentionGrad the gradients of scores, may be rounded to
	// the type of q before they are multiplied.
	Attention
	// AttentionGrad: the gradients of q, k, v. Out: dq, dk, dv of the shapes of q, k, v and any strides, and, if the gradient of
	// a mask of q's type is wanted, dmask [B, H, T, S] of any strides. In: g [B, H, T, E], the gradient of dst, then q, k, v, dst
	// and lse as they were in Attention, and perhaps its mask. Scalars as Attention. With p = exp(score - lse),
	//
	//	dv = (p*keep)ᵀ @ g;  ds = p * (keep * g @ vᵀ - sum over E of g*dst);  dq = F[0]*ds @ k;  dk = F[0]*dsᵀ @ q;  dmask = ds
	//
	// where dk and dv are summed over the heads of q that share a head of k. Rows whose lse is -infinity contribute nothing.
	// Order of additions is fixed by the shapes.
	AttentionGrad

	// ---- running sums, sorting and triangles; rows are along the last dimension --------------------------------------

	CumSum  // dst[i] = a[0] + ... + a[i]; integer types and Bool into an Int64 dst. All types
	CumProd // dst[i] = a[0] * ... * a[i]; integer types and Bool into an Int64 dst. All types
	// CumProdGrad: a is the gradient, b the input of CumProd, c its output. dst[i] = c[i-1] * s[i] with c[-1] = 1 and
	// s[i] = a[i] + b[i+1]*s[i+1]: what the elements of the output from i on have of b[i], without a division. Float types.
	CumProdGrad
	// Sort: Out = values, indices (Int64) of the elements of each row in ascending order, or descending if I[0] != 0. NaN is
	// greater than all numbers; -0 and 0 are equal. Equal elements keep their order, also when descending. All types.
	Sort
	// TopK: Out = the first values and indices of Sort, as many as the output's rows are long. I[0] as in Sort. All types.
	TopK
	// Tril: dst[..., i, j] = j-i <= I[0] ? a[..., i, j] : 0. At least two dimensions. All types.
	Tril
	Triu // j-i >= I[0] instead

	// ---- indexing ---------------------------------------------------------------------------------------------------

	// IndexSelect: dst takes rows of a along dimension I[0] given by b (one dimension, Int64): dst[.., i, ..] = a[.., b[i], ..].
	// All types. An index outside the dimension makes the operation fail.
	IndexSelect
	// IndexAdd: dst already holds the sum so far and is updated in place: dst[.., b[i], ..] += a[.., i, ..] along dimension
	// I[0]. Float types. Order of additions is that of i.
	IndexAdd

	// Gather: dst[.., i, ..] = a[.., b[.., i, ..], ..] along dimension I[0]: b (Int64) has the shape of dst, and a's dimensions
	// other than I[0] are not smaller. All types. An index outside the dimension makes the operation fail.
	Gather
	// Scatter: dst is updated in place: dst[.., b[.., i, ..], ..] = a[.., i, ..] along dimension I[0]. b (Int64) has the shape of
	// a, whose dimensions other than I[0] are not larger than dst's. Where several elements go to one place, the last along the
	// dimension wins. dst is contiguous. All types. An index outside the dimension makes the operation fail.
	Scatter
	// ScatterAdd: as Scatter, but elements are added, in the order in which they stand along the dimension. Float types; half
	// precision is rounded once, when all is added.
	ScatterAdd

	// EmbeddingBag: dst [B, W] from rows of a [R, W] that b [N] names (Int64), in B bags: bag k is b[c[k]] up to b[c[k+1]], or the
	// end for the last; c [B] is Int64, and does not descend. Row I[1] is left out; -1 for none. I[0] says what becomes of a bag's rows: their
	// sum (BagSum), their mean (BagMean), or the greatest of each column (BagMax). Of no rows it is 0. For BagMean, Out[1] [B] (Int64) is
	// how many rows each bag has; for BagMax, Out[1] [B, W] (Int64) is which row it was, -1 if there was none. All views are contiguous, and W is not 0.
	// Float types. An index outside 0..R-1, or an offset outside 0..N or below the one before it, makes the operation fail.
	EmbeddingBag
	// EmbeddingBagGrad: dst [R, W] is updated in place: dst[b[i]] += a[k] for each i in bag k, in the order of i, where a [B, W] is the
	// gradient, divided by the bag's count, In[3], for BagMean. b, c and scalars are as for EmbeddingBag, without BagMax. Half precision is
	// rounded once. Float types.
	EmbeddingBagGrad

	// ---- normalisation: a, and what has its shape, is [N, C, L] and contiguous: C channels of L neighbours each. I[0] is the
	// number of groups of channels: the row of element (n, c, l) is n*I[0] + c/(C/I[0]). Layer norm is [rows, columns, 1] in one
	// group. Statistics (means, reciprocals of standard deviations, sums) are Float32 for half precision, else of a's type.
	// weight and bias have C elements, of a's type or that of statistics. I[1] says which views are there and what they
	// mean: see NormFlags. Float types; x below is (a-mean)*rstd of the element's row or channel. -------------------------

	// RowNorm: Out = dst, mean, rstd of each row; In = a, weight, bias. dst = x*weight + bias, where mean is that of the row and
	// rstd = 1/sqrt(variance + F[0]), of the biased variance. With NormRMS there is no mean: rstd = 1/sqrt(mean(a*a) + F[0]).
	// dst may be of a half type where a, weight and bias are Float32: it is rounded as it is written.
	RowNorm
	// RowNormGrad: dst = rstd*(g - mean(g) - x*mean(g*x)) with g = In[0]*weight and means over the row; without mean(g) for
	// NormRMS. In = gradient, a, mean, rstd, weight. The gradient may be of a half type where all else is Float32. With I[2] != 0, for Float32 alone, the
	// result is added to what dst holds.
	RowNormGrad
	// NormSums: Out = sum of In[0]*x and sum of In[0] over each channel: the gradients of weight and bias. In = gradient, a, mean,
	// rstd: of rows, or of channels if I[0] is 0. The gradient may be of a half type where a is Float32.
	NormSums
	// ChannelStats: Out = mean, rstd of each channel, and with NormRunning a running mean and variance that are updated in place:
	// r = (1-F[1])*r + F[1]*new, where the new variance is the unbiased one. They have a's type or that of statistics. In = a.
	ChannelStats
	// ChannelNorm: dst = x*weight + bias. In = a, mean and rstd of channels, weight, bias. With NormVariance the third view is a
	// variance: rstd = 1/sqrt(variance + F[0]). Likewise for NormSums of channels and ChannelNormGrad.
	ChannelNorm
	// ChannelNormGrad: dst = weight*rstd*g, and with NormTraining weight*rstd*(g - (sum + x*sumX)/(N*L)). In = gradient g, a, mean,
	// rstd, weight, and with NormTraining the two results of NormSums, sumX and sum.
	ChannelNormGrad

	// ---- optimizers: many tensors in one launch. Call.Out and Call.In hold groups in the order given, each group of n
	// contiguous views of one float type; n = I[0]. Updates are in place: what is named twice is the same memory. I[4] is a sum of
	// StepFlags, for what the device decides: then other views follow the groups. --------------------------------------

	// SGDStep: Out = params, momentum buffers (the second group is there if momentum F[1] != 0); In = gradients.
	// g = grad + F[2]*param (weight decay), negated first if I[2] != 0 (maximize); if F[1] != 0: buf = g on the first
	// step (I[1] != 0), else F[1]*buf + (1-F[3])*g; g = I[3] != 0 (Nesterov) ? g + F[1]*buf : buf; param -= F[0]*g.
	SGDStep
	// AdamStep: Out = params, first moments, second moments; In = gradients. F = lr, beta1, beta2, eps, weight decay,
	// step number (1 for the first). I[1] != 0: decoupled weight decay (AdamW: param *= 1 - lr*wd first), else g += wd*param.
	// I[2] != 0: maximize. m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*g*g;
	// param -= lr/(1-beta1^t) * m / (sqrt(v)/sqrt(1-beta2^t) + eps). I[3] != 0 (AMSGrad): Out has a fourth group, the largest v
	// so far (NaN wins), which is brought up to date and takes v's place in the last formula.
	AdamStep
	// RMSPropStep: Out = params, square averages, momentum buffers (if momentum F[4] != 0), gradient averages (if I[1] != 0:
	// centered); In = gradients. F = lr, alpha, eps, weight decay, momentum. g = grad, negated if I[2] != 0 (maximize), plus
	// F[3]*param; s = alpha*s + (1-alpha)*g*g; centered: a = alpha*a + (1-alpha)*g and d = sqrt(s - a*a) + eps, else
	// d = sqrt(s) + eps; with momentum: buf = F[4]*buf + g/d and param -= lr*buf, else param -= lr*g/d.
	RMSPropStep
	// AdagradStep: Out = params, sums; In = gradients. F = lr, lr decay, eps, weight decay, step number (1 for the first).
	// g = grad, negated if I[1] != 0 (maximize), plus F[3]*param; sum += g*g;
	// param -= F[0]/(1+(F[4]-1)*F[1]) * g / (sqrt(sum) + eps).
	AdagradStep
	// LionStep: Out = params, momenta; In = gradients. F = lr, beta1, beta2, weight decay. g = grad, negated if I[1] != 0;
	// param = param*(1 - lr*F[3]) - lr*sign(beta1*m + (1-beta1)*g); m = beta2*m + (1-beta2)*g. The sign of 0 and NaN is 0.
	LionStep

	// ---- clipping of gradients: n = I[0] contiguous views of one float type in one launch --------------------------------

	// GradNorm: Out = total (Float64, one element), updated in place; In = n tensors; F[0] = p. total += sum of |x|^p over all
	// elements x, or for p = infinity total = the larger of it and all |x| (NaN wins). Computed in double precision.
	GradNorm
	// ClipNorm: Out = n tensors, updated in place; In = norm (Float64, one element); F[0] = the largest norm allowed. With
	// factor = F[0]/(norm + 1e-6): every element is multiplied by factor if the norm is finite and factor is less than 1.
	// Where the norm is not finite: I[1] = 0 leaves the elements as they are; else the factor is used all the same.
	ClipNorm
	// ClipValue: Out = n tensors, updated in place: every element is brought into -F[0]..F[0]. NaN stays.
	ClipValue

	// ---- cells of recurrent layers: views of two dimensions whose last one is contiguous; B rows, H units. Float types ---

	// LSTMCell: Out = gates [B, 4H], h [B, H], c [B, H]; In = the cell before, p [B, H]. gates hold the sums that go into the
	// gates i, f, g, o and are replaced by sigmoid of i, f and o and by tanh of g. c = f*p + i*g; h = o*tanh(c). c may be p.
	LSTMCell
	// LSTMCellGrad: Out = dsums [B, 4H], dp [B, H]; In = gates (as LSTMCell left them), p, c, and the gradients y of h by the
	// output, r of h by the next step, dc of c, all [B, H]. dh = y+r; t = tanh(c); d = dh*o*(1-t*t) + dc; dsums =
	// d*g*i*(1-i), d*p*f*(1-f), d*i*(1-g*g), dh*t*o*(1-o); dp = d*f. dsums may be gates; dp may be dc.
	LSTMCellGrad
	// GRUCell: Out = gates [B, 3H], h [B, H], inner [B, H]; In = hidden [B, 3H], p [B, H]. gates hold the input's share of the
	// sums of r, z, n; hidden has the share of the state before, p. They are replaced by r = sigmoid, z = sigmoid of the sums
	// of both shares, and n = tanh(gates_n + r*hidden_n). inner = hidden_n; h = n + z*(p - n).
	GRUCell
	// GRUCellGrad: Out = dgates [B, 3H], dhidden [B, 3H], dp [B, H]; In = gates (as GRUCell left them), inner, p, and the
	// gradients y of h by the output and r of h by the next step. dh = y+r; dz = dh*(p-n)*z*(1-z); dn = dh*(1-z)*(1-n*n);
	// dr = dn*inner*r*(1-r); dgates = dr, dz, dn; dhidden = dr, dz, dn*r; dp = dh*z. dgates may be gates; dp may be r.
	GRUCellGrad

	// ---- mixed precision: what a gradient scaler does on the device; see package amp ---------------------------------

	// AmpUnscale: Out = n gradients, contiguous views of one float type that are updated in place, then found (Float32, one
	// element); In = inv (Float32, one element); n = I[0]. If any element of a gradient is infinite or NaN, found is set to 1,
	// else it stays as it is: it is never cleared. Every element is then multiplied by inv, unless inv is 1. Float types.
	AmpUnscale
	// AmpUpdateScale: Out = scale (Float32, one element) and tracker (Int32, one element), updated in place; In = found (Float32,
	// one element). If found is not 0: scale *= F[1] (backoff) and tracker = 0. Else tracker += 1, and when it is I[0] (growth
	// interval): scale *= F[0] (growth), unless that is infinite, and tracker = 0. The products are computed in double
	// precision and rounded once.
	AmpUpdateScale

	firstOfTable // those of elementwise_gen.go follow
)

// The activations of MatMulAct.
const (
	ActNone = iota
	ActReLU
	ActGELU
	ActGELUTanh
)

// Count is one more than the largest ID: the length of tables indexed by ID.
const Count = int(count)

// NormFlags are bits of I[1] in operations of normalisation: which of the optional views are there, and what they mean.
const (
	NormWeight   = 1 << iota // weight is there
	NormBias                 // bias is there
	NormRMS                  // there is no mean: root mean square
	NormRunning              // running statistics are there
	NormVariance             // the statistic after the mean is a variance
	NormTraining             // the statistics are those of a itself
)

// StepFlags are bits of I[4] in optimizers: which operands in device memory there are.
const (
	// StepScaled: after the gradients In has a scale (Float32, one element). Gradients are multiplied by its reciprocal, rounded to
	// Float32, before anything else, in the type of computation: half precision is not rounded in between.
	StepScaled = 1 << iota
	// StepGuarded: then In has a flag (Float32, one element). If it is not 0, nothing is written.
	StepGuarded
	// StepCounted: Out has a last group of n counters (Int64, one element each): steps taken. They rise by one, and then are, each for
	// its tensor, the step number of AdamStep and AdagradStep, in place of the scalar, and I[1] of SGDStep is whether they are 1.
	StepCounted
	// StepSettings: last, In has eight Float64, which take the place of the scalars F, so that work captured in a graph steps with other
	// settings in each replay. Which groups there are is decided by the scalars of the Call. AdamStep and AdagradStep have counters then.
	StepSettings
)

// StepScalars is the number of elements of the view of StepSettings.
const StepScalars = 8

// What EmbeddingBag makes of the rows of a bag.
const (
	BagSum = iota
	BagMean
	BagMax
)
