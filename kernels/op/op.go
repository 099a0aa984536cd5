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
	// Arange: dst (one dimension) element i = start + i*step; F[0], F[1] for float types, I[0], I[1] for integer types.
	Arange
	// Uniform: dst = F[0] + u*(F[1]-F[0]) with u in [0, 1) from Philox4x32-10 with key I[0] and counter offset I[1].
	// Float types. dst is contiguous. Element i uses word i%4 of block I[1]+i/4; see philox.go in kernels/cpu.
	Uniform
	// Normal: dst = F[0] + F[1]*n with n standard normal by Box-Muller on the words of Philox, as Uniform.
	Normal
	// Bernoulli: dst = 1 where the uniform of the same element is < F[0], else 0. Float types and Bool.
	Bernoulli

	// ---- element-wise, one input: dst = f(a), dst has a's type ----------------------------------------------------

	Neg        // -a. Float and integer types
	Abs        // |a|. Float and integer types
	Sign       // -1, 0 or 1. Float and integer types
	Exp        // float types
	Log        // float types
	Sqrt       // float types
	Rsqrt      // 1/sqrt(a). Float types
	Reciprocal // 1/a. Float types
	Sin        // float types
	Cos        // float types
	Tanh       // float types
	Sigmoid    // 1/(1+exp(-a)), without overflow. Float types
	ReLU       // max(a, 0), NaN stays NaN. Float and integer types
	LeakyReLU  // a > 0 ? a : F[0]*a. Float types
	GELU       // 0.5*a*(1+erf(a/sqrt 2)). Float types
	GELUTanh   // the tanh approximation of GELU. Float types
	SiLU       // a*sigmoid(a). Float types
	Softplus   // log(1+exp(F[0]*a))/F[0], and a itself where F[0]*a > F[1]. Float types
	Not        // dst (Bool) = a is 0. All types
	AddScalar  // a + F[0]; I[0] for integer types. Float and integer types
	MulScalar  // a * F[0]; I[0] for integer types. Float and integer types
	PowScalar  // a ** F[0]. Float types
	Clamp      // min(max(a, F[0]), F[1]); I[0], I[1] for integer types; NaN stays NaN. Float and integer types
	Log1p      // log(1+a), accurate near 0. Float types
	Expm1      // exp(a)-1, accurate near 0. Float types
	Erf        // the error function. Float types
	ELU        // a > 0 ? a : F[0]*(exp(a)-1). Float types
	Floor      // float types
	Ceil       // float types
	Round      // to the nearest integer, halves to the even one. Float types
	Trunc      // toward zero. Float types
	IsNaN      // dst (Bool) = a is NaN. Float types
	IsInf      // dst (Bool) = a is infinite. Float types
	IsFinite   // dst (Bool) = a is neither. Float types

	// ---- element-wise, gradients: a is the incoming gradient, b what the forward pass saved; all of one float type ---

	ReLUGrad      // b > 0 ? a : 0. b is the output of ReLU
	LeakyReLUGrad // b > 0 ? a : F[0]*a. b is the input
	SigmoidGrad   // a*b*(1-b). b is the output
	TanhGrad      // a*(1-b*b). b is the output
	GELUGrad      // b is the input
	GELUTanhGrad  // b is the input
	SiLUGrad      // b is the input
	SoftplusGrad  // F as Softplus. b is the input
	ErfGrad       // a*2/sqrt(pi)*exp(-b*b). b is the input
	ELUGrad       // b > 0 ? a : a*F[0]*exp(b). b is the input
	ClampGrad     // F[0] <= b <= F[1] ? a : 0. b is the input
	HardtanhGrad  // b <= F[0] or b >= F[1] ? 0 : a. b is the input

	// ---- element-wise, two inputs -----------------------------------------------------------------------------------

	Add     // a + F[0]*b (F[0] is usually 1); integer types use I[0]. Float and integer types
	Sub     // a - b. Float and integer types
	Mul     // a * b. Float and integer types; Bool: and
	Div     // a / b. Float types
	Pow     // a ** b. Float types
	Maximum // NaN if either is NaN. Float and integer types
	Minimum // NaN if either is NaN. Float and integer types
	Eq      // dst is Bool; a and b have one type. All types. Likewise the five below
	Ne
	Lt
	Le
	Gt
	Ge
	And // Bool
	Or  // Bool
	Xor // Bool
	// Fmod: the remainder of a/b with the sign of a, exact. Integers: 0 where b is 0. Float and integer types.
	Fmod
	// Remainder: the remainder with the sign of b: Fmod plus b where that is not 0 and of the other sign. As Fmod otherwise.
	Remainder

	// ---- element-wise, three inputs ---------------------------------------------------------------------------------

	Where   // a (Bool) ? b : c. b, c and dst have one type. All types
	Lerp    // |c| < 0.5 ? a + c*(b-a) : b - (b-a)*(1-c). Float types
	AddCMul // a + F[0]*b*c; I[0] for integer types. Float and integer types
	AddCDiv // a + F[0]*b/c. Float types

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
	NormMax      // the largest |a|, NaN wins, 0 for nothing. Float types
	NormMin      // the least |a|, NaN wins. Float types
	CountNonzero // how many a are not 0 (NaN is not), an Int64 dst. All types
	LogSumExp    // log(sum(exp(a))) relative to the largest a; infinities as the formula has them. Float types

	// ---- matrix products --------------------------------------------------------------------------------------------

	// MatMul: dst[..., M, N] = F[0] * a[..., M, K] @ b[..., K, N] + F[1] * c, where c has dst's shape (broadcast by strides)
	// and is only there, and only read, if F[1] != 0. Batch dimensions of a and b are already broadcast to dst's. Any
	// strides, so a transposed operand is only a view. dst must not overlap an input, except that c may be dst exactly.
	// Float types, one type for all views. K = 0 gives F[1]*c.
	MatMul

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

	// Gather: dst has the shape of b (Int64); dst[..., i, ...] = a[..., b[..., i, ...], ...] along dimension I[0]. a is at least as
	// large as b in the other dimensions. All types. An index outside the dimension makes the operation fail.
	Gather
	// Scatter: dst already holds values and is updated in place: dst[..., b[..., i, ...], ...] = a[..., i, ...] along dimension
	// I[0]; a and b (Int64) have one shape, and dst is at least as large in the other dimensions. The indices along I[0] must
	// differ from each other: else it is open which element is written last. All types. An index outside makes it fail.
	Scatter

	// ---- optimizers: many tensors in one launch. Call.Out and Call.In hold groups in the order given, each group of n
	// contiguous views of one float type; n = I[0]. Updates are in place: what is named twice is the same memory. --------

	// SGDStep: Out = params, momentum buffers (the second group is there if momentum F[1] != 0); In = gradients.
	// g = grad + F[2]*param (weight decay), negated first if I[2] != 0 (maximize); if F[1] != 0: buf = g on the first
	// step (I[1] != 0), else F[1]*buf + (1-F[3])*g; g = I[3] != 0 (Nesterov) ? g + F[1]*buf : buf; param -= F[0]*g.
	SGDStep
	// AdamStep: Out = params, first moments, second moments; In = gradients. F = lr, beta1, beta2, eps, weight decay,
	// step number (1 for the first). I[1] != 0: decoupled weight decay (AdamW: param *= 1 - lr*wd first), else g += wd*param.
	// I[2] != 0: maximize. m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*g*g;
	// param -= lr/(1-beta1^t) * m / (sqrt(v)/sqrt(1-beta2^t) + eps).
	AdamStep

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

	count
)

// Count is one more than the largest ID: the length of tables indexed by ID.
const Count = int(count)
