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

	// The losses of elements: a is the prediction, b the target. Float types.

	SquaredError // (a - b)**2
	// SmoothL1: with d = |a - b|: F[1]*d*d/(2*F[0]) where d < F[0], else F[1]*(d - F[0]/2). F[0] is at least 0, and 0 gives F[1]*d.
	SmoothL1
	BCE       // -(b*max(log(a), -100) + (1-b)*max(log(1-a), -100))
	BCELogits // log(1+exp(-a)) + (1-b)*a, without overflow: the BCE of sigmoid(a)
	KLDiv     // b*(log(b) - a), and 0 where b is 0; if F[0] is not 0, b is a logarithm itself: exp(b)*(b - a)

	// ---- element-wise, three inputs ---------------------------------------------------------------------------------

	Where // a (Bool) ? b : c. b, c and dst have one type. All types

	// The gradients of the losses of elements with respect to the prediction: a is the gradient of the loss, b the prediction, c
	// the target; scalars as the loss has them. Float types.

	SquaredErrorGrad // a*2*(b - c)
	SmoothL1Grad     // a*F[1]*(d/F[0], but at most 1 and at least -1) with d = b - c; the sign of d if F[0] is 0
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

	// CrossEntropy: the loss of rows of logits against classes, computed relative to each row's maximum. Out: loss [N] of a's
	// type; lse [N], log(sum(exp(a[n, :]))), and weight [N], both of the type of computation (Float32 for half precision, else
	// a's) and contiguous. In: a [N, C] logits (float types), b [N] classes (Int64), and perhaps w [C] weights of a's type. With
	// s = F[0], c = b[n], and weights of 1 if there are none,
	//
	//	loss[n] = (1-s)*w[c]*(lse[n] - a[n, c]) + s/C * sum over j of w[j]*(lse[n] - a[n, j]),   weight[n] = w[c]
	//
	// and loss and weight are 0 where c is I[0] (ignore index); lse is computed for all rows. The second term is left out if s
	// is 0. A class outside 0..C-1 that is not the ignore index makes the operation fail.
	CrossEntropy
	// CrossEntropyGrad: dst [N, C] from g [N] (the gradient of each row's loss), a [N, C], b [N], lse [N] as CrossEntropy left
	// it, and perhaps w [C]; scalars as CrossEntropy. dst may be the memory of a. With p = exp(a[n, j] - lse[n]),
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
	// the key of Philox is I[1]. lse is that of the scores before dropout.
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
