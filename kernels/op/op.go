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

	// ---- element-wise, gradients: a is the incoming gradient, b what the forward pass saved; all of one float type ---

	ReLUGrad      // b > 0 ? a : 0. b is the output of ReLU
	LeakyReLUGrad // b > 0 ? a : F[0]*a. b is the input
	SigmoidGrad   // a*b*(1-b). b is the output
	TanhGrad      // a*(1-b*b). b is the output
	GELUGrad      // b is the input
	GELUTanhGrad  // b is the input
	SiLUGrad      // b is the input
	SoftplusGrad  // F as Softplus. b is the input

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

	// ---- element-wise, three inputs ---------------------------------------------------------------------------------

	Where // a (Bool) ? b : c. b, c and dst have one type. All types

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

	// ---- indexing ---------------------------------------------------------------------------------------------------

	// IndexSelect: dst takes rows of a along dimension I[0] given by b (one dimension, Int64): dst[.., i, ..] = a[.., b[i], ..].
	// All types. An index outside the dimension makes the operation fail.
	IndexSelect
	// IndexAdd: dst already holds the sum so far and is updated in place: dst[.., b[i], ..] += a[.., i, ..] along dimension
	// I[0]. Float types. Order of additions is that of i.
	IndexAdd

	// ---- optimizers: many tensors in one launch. Call.Out and Call.In hold groups in the order given, each group of n
	// contiguous views of one float type; n = I[0]. Updates are in place: what is named twice is the same memory. --------

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

	count
)

// Count is one more than the largest ID: the length of tables indexed by ID.
const Count = int(count)
