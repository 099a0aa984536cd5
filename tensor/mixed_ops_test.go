package tensor_test

func init() { refusals = append(refusals, mixedRefusals...) }

// mixedRefusals are operands of several types, or of shapes that do not go together, for what refuses them nowhere else.
var mixedRefusals = []struct {
	sample
	want refusal
}{
	{sample{"AddCDiv", "float32[2] float32[3] float32[2]", args{1.0}}, "shape"},
	{sample{"AddCDivInPlace", "float32[2] float64[2] float32[2]", args{1.0}}, "dtype"},
	{sample{"AddCMulInPlace", "float32[2] float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"AddMM", "float32[2] float32[2 2] float64[2 2]", args{1.0, 1.0}}, "dtype"},
	{sample{"AddScaled", "float32[2] float32[3]", args{2.0}}, "shape"},
	{sample{"BAddBMM", "float32[2] float32[2 2 3] float64[2 3 2]", args{1.0, 1.0}}, "dtype"},
	{sample{"ClampGrad", "float32[2] float32[3]", args{0.0, 1.0}}, "shape"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 2 3]", args{1.0, 1.0, 1.0, 1.0}}, "shape"},
	{sample{"Conv1d", "float32[2 3 5] float32[4 3 3] float64[4]", args{1.0, 1.0, 1.0, 1.0}}, "dtype"},
	{sample{"ConvTranspose1d", "float32[2 4 5] float16[4 3 3]", args{1.0, 0.0, 0.0, 1.0}}, "dtype"},
	{sample{"ConvTranspose2d", "int32[2 4 5 5] int32[4 3 3 3]", args{1.0, 0.0, 0.0, 1.0}}, "dtype"},
	{sample{"CumProdGrad", "float32[2] float64[2] float32[2]", args{0.0}}, "dtype"},
	{sample{"DivInPlace", "float32[2] float32[3]", nil}, "shape"}, {sample{"ELUGrad", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"EinsumGrad", "float32[2] float64[2] int32[2]", args{"i,i->i", 0.0}}, "dtype"},
	{sample{"ErfGrad", "float32[2] float64[2]", nil}, "dtype"}, {sample{"Fmod", "float32[2] float32[3]", nil}, "shape"},
	{sample{"GELUGrad", "float32[2] float32[3]", nil}, "shape"}, {sample{"GELUTanhGrad", "float32[2] float32[2 1]", nil}, "shape"},
	{sample{"GroupNorm", "float32[2 4] float64[4]", args{1e-5, 2.0}}, "dtype"},
	{sample{"HardtanhGrad", "float32[2] float64[2]", args{0.0, 1.0}}, "dtype"},
	{sample{"HuberLoss", "int32[2] bool[2]", args{1.0}}, "dtype"}, {sample{"LeakyReLUGrad", "float32[2] float16[2]", args{0.1}}, "dtype"},
	{sample{"IndexAdd", "float32[2 0] int64[3] float32[2 3]", args{1.0}}, "shape"},
	{sample{"LerpScalar", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"Linear", "float32[2 2] float64[3 2]", nil}, "dtype"}, {sample{"MM", "float32[2 3] float64[3 2]", nil}, "dtype"},
	{sample{"MV", "float32[2 3] float64[3]", nil}, "dtype"}, {sample{"MaskedFillInPlace", "float32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"MatMul", "float32[2 3] float32[2 3]", nil}, "shape"}, {sample{"MatMul", "float32[] float32[]", nil}, "shape"},
	{sample{"MulInPlace", "int32[2] float32[2]", nil}, "dtype"}, {sample{"Pow", "float32[2] float32[3]", nil}, "shape"},
	{sample{"RMSNorm", "float32[2 3] float32[2]", args{1e-5, 3.0}}, "shape"}, {sample{"Remainder", "bool[2] bool[2]", nil}, "dtype"},
	{sample{"ScatterValue", "float32[2 3] float32[2 3]", args{1.0, 1.0}}, "dtype"},
	{sample{"SiLUGrad", "float32[2] float64[2]", nil}, "dtype"}, {sample{"SmoothL1Loss", "float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"SmoothL1Loss", "int32[2] int32[2]", args{1.0}}, "dtype"}, {sample{"SoftplusGrad", "float32[2] float64[2]", args{1.0, 20.0}}, "dtype"},
	{sample{"Sub", "float32[2] float32[3]", nil}, "shape"}, {sample{"SubInPlace", "float32[2] float32[3]", nil}, "shape"},
	{sample{"TakeAlongDim", "float32[2 3] float32[2 3]", args{1.0}}, "dtype"},
}
