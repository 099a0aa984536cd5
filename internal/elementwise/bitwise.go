package elementwise

// bitwise are operations of the bits of integers. Of bools package tensor runs the logical ones in their place.
var bitwise = []Op{
	{
		Name: "BitwiseAnd", Torch: "bitwise_and", Second: "u", Types: Integers, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is the bits that both t and u have",
		Func: Func{Go: "a & b", CUDA: "a & b", Reference: "a & b", Wild: true},
	},
	{
		Name: "BitwiseOr", Torch: "bitwise_or", Second: "u", Types: Integers, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is the bits that t or u has",
		Func: Func{Go: "a | b", CUDA: "a | b", Reference: "a | b", Wild: true},
	},
	{
		Name: "BitwiseXor", Torch: "bitwise_xor", Second: "u", Types: Integers, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is the bits that exactly one of t and u has",
		Func: Func{Go: "a ^ b", CUDA: "a ^ b", Reference: "a ^ b", Wild: true},
	},
	{
		Name: "BitwiseNot", Torch: "bitwise_not", Types: Integers, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is the bits that t has not",
		Func: Func{Go: "^a", CUDA: "(C)~a", Reference: "^a", Wild: true},
	},
	{
		Name: "BitwiseLeftShift", Torch: "bitwise_left_shift", Second: "u", Types: Integers, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is the bits of t, u places to the left", More: shifts,
		Differs: shiftsLeaveTheSign,
		Func:    Func{Go: "a << uint64(b)", CUDA: "left_shift<C>(a, b)", Reference: "a << uint64(b)", Values: "shifted"},
	},
	{
		Name: "BitwiseRightShift", Torch: "bitwise_right_shift", Second: "u", Types: Integers, Autocast: "Untouched", ByHand: Tensor | Autograd,
		Does: "is the bits of t, u places to the right, with the sign of t", More: shifts,
		Differs: shiftsLeaveTheSign,
		Func:    Func{Go: "a >> uint64(b)", CUDA: "right_shift<C>(a, b)", Reference: "a >> uint64(b)", Values: "shifted"},
	},
}

const shifts = "Of a negative number of places, and of as many as there are bits or more, nothing is left but the sign, to the right"
