package torchtest

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// slack is how many times the distance that rounding errors may move an element is accepted: the errors that were tried are not the
// worst ones.
const slack = 8

// Difference is where Cistern and PyTorch do not agree.
type Difference struct {
	Kind   string // "panic", "leak", "refused", "not refused", "dtype", "shape", "value", "gradient"
	Step   int    // that made the value or was refused; -1 for the backward pass
	Op     string // of that step
	Where  string // the value
	Detail string
}

func (d *Difference) String() string {
	return fmt.Sprintf("%s of %s (%s): %s", d.Kind, d.Where, d.Op, d.Detail)
}

// Compare compares the answers of Cistern and of PyTorch. It returns nil if they agree, or differ as declared.
func Compare(p *Program, ours, torch *Answer) *Difference {
	if ours.Panic != "" {
		return p.difference("panic", ours.Failed, ours.Panic)
	}
	if ours.Leak != "" {
		return p.difference("leak", ours.Failed, ours.Leak)
	}
	if torch.Failed >= 0 && missing.MatchString(torch.Error) {
		return nil
	}
	if ours.Failed != torch.Failed {
		return refusals(p, ours, torch)
	}
	if ours.Failed >= 0 {
		return nil
	}
	p.huge, p.large = hugeNumbers(torch.Values), largeNumbers(torch.Values)
	if d, meant := p.compareAll("value", ours.Values, torch.Values); d != nil || meant {
		return d
	}
	if overflowed(ours.Values, torch.Values) {
		return nil
	}
	d, _ := p.compareAll("gradient", ours.Grads, torch.Grads)
	return d
}

// overflowed reports whether a rule let a value pass of which an element is a number in one and not in the other: the order of a sum
// whose terms overflow decides, and gradients are of one or of the other.
func overflowed(ours, torch map[string]Value) bool {
	for name, v := range torch {
		if differentNumbers(ours[name], v) {
			return true
		}
	}
	return false
}

// missing matches what PyTorch says where it has no kernel.
var missing = regexp.MustCompile(`not implemented for|derivative for .* is not implemented|not supported for|NotImplementedError|not currently supported|unsupported operation: the input tensor|Expected .*scalar type|expected scalar type|same dtype|CPU.*BFloat16|mixed dtype|Only Tensors of floating point`)

func (p *Program) difference(kind string, step int, detail string) *Difference {
	d := &Difference{Kind: kind, Step: step, Detail: detail, Op: "backward", Where: "program"}
	if step >= 0 && step < len(p.Steps) {
		d.Op, d.Where = p.Steps[step].Op, p.Steps[step].name()
	}
	if p.Train != nil {
		d.Op = p.Train.Optimizer
	}
	return d
}

// refusals judges programs that only one of the two runs to the end, or that they refuse at different steps.
func refusals(p *Program, ours, torch *Answer) *Difference {
	first, kind, text := ours.Failed, "refused", ours.Error
	if ours.Failed < 0 || torch.Failed >= 0 && torch.Failed < ours.Failed {
		first, kind, text = torch.Failed, "not refused", torch.Error
	}
	if d := p.difference(kind, first, text+"; of "+strings.Join(p.operations(), " ")); !d.declared() {
		return d
	}
	return nil
}

// operations are the names of those that the program has.
func (p *Program) operations() []string {
	var names []string
	for _, s := range p.Steps {
		if s.Op != "Input" && !slices.Contains(names, s.Op) {
			names = append(names, s.Op)
		}
	}
	return names
}

func (d *Difference) declared() bool {
	return slices.ContainsFunc(Declared, func(x Declaration) bool { return x.Kind == d.Kind && x.matches(d) })
}

// jumps reports whether a value differs because the operation is not continuous, or was given what PyTorch's was not, to within
// rounding errors: two numbers that one of them finds equal, say.
func (p *Program) jumps(d *Difference, ours, torch map[string]Value) bool {
	if d.Kind != "value" || d.Step < 0 || d.Step >= len(p.Steps) {
		return false
	}
	if slices.ContainsFunc(p.Steps[d.Step].uses(), func(v string) bool { return differentSpecials(ours[v], torch[v]) }) {
		return true
	}
	if truths[d.Op] && p.mixes(d.Step, torch) { // each operand is compared with 0 in its own type; in PyTorch's common one it may have become 0
		return true
	}
	if d.Op == "Atan2" && slices.ContainsFunc(p.Steps[d.Step].uses(), func(v string) bool { return differentZero(ours[v], torch[v]) }) {
		return true
	}
	if !jumping.MatchString(d.Op) && !(pole.MatchString(d.Op) && infinite.MatchString(d.Detail)) {
		return false
	}
	return slices.ContainsFunc(p.Steps[d.Step].uses(), func(v string) bool {
		return differentElement(ours[v], Value{Data: torch[v].Data}, exactly) != "" || pole.MatchString(d.Op) && differentZero(ours[v], torch[v])
	})
}

// attended matches what gradients have come through attention.
var attended = regexp.MustCompile("; through.* (Attention|nn.MultiheadAttention|nn.Transformer[A-Za-z]*)")

// cancels reports whether a gradient has come through attention of large numbers. A row's sum of dO*O, which the backward pass of
// FlashAttention has instead of the sum of P*dP, is the same number but for rounding errors, which are multiplied by the keys.
func (p *Program) cancels(d *Difference) bool {
	return p.large && d.Kind == "gradient" && attended.MatchString(d.Detail)
}

// truths are the operations of bools that take numbers.
var truths = map[string]bool{"And": true, "Or": true, "Xor": true}

// mixes reports whether a step has operands of several types.
func (p *Program) mixes(step int, values map[string]Value) bool {
	types := map[string]bool{}
	for _, v := range p.Steps[step].uses() {
		types[values[v].DType] = true
	}
	return len(types) > 1
}

// differentZero reports whether two values, equal as numbers, have zeros of other signs: their poles are infinities of other signs.
func differentZero(ours, torch Value) bool {
	a, b := strings.Fields(ours.Data), strings.Fields(torch.Data)
	for i := range min(len(a), len(b)) {
		x, _ := strconv.ParseFloat(a[i], 64)
		y, _ := strconv.ParseFloat(b[i], 64)
		if x == 0 && y == 0 && math.Signbit(x) != math.Signbit(y) {
			return true
		}
	}
	return false
}

// differentSpecials reports whether some element of two values is infinite or NaN in one and something else in the other, which a rule let
// pass.
func differentSpecials(ours, torch Value) bool {
	a, b := strings.Fields(ours.Data), strings.Fields(torch.Data)
	for i := range min(len(a), len(b)) {
		x, _ := strconv.ParseFloat(a[i], 64)
		y, _ := strconv.ParseFloat(b[i], 64)
		if (special(a[i]) || special(b[i])) && x != y && !(math.IsNaN(x) && math.IsNaN(y)) {
			return true
		}
	}
	return false
}

// differentNumbers reports whether some element is NaN in one of two values and a number in the other.
func differentNumbers(ours, torch Value) bool {
	a, b := strings.Fields(ours.Data), strings.Fields(torch.Data)
	for i := range min(len(a), len(b)) {
		if strings.EqualFold(a[i], "nan") != strings.EqualFold(b[i], "nan") && !(special(a[i]) && special(b[i])) {
			return true
		}
	}
	return false
}

// jumping matches operations that are not continuous.
var jumping = regexp.MustCompile("^(And|Or|Xor|Not|Eq|Ne|Lt|Le|Gt|Ge|.*(Eq|Ne|Lt|Le|Gt|Ge)Scalar|Any|All|CountNonzero|Floor|Ceil|Round|Trunc|Sign|Fmod.*|Remainder.*|To|" +
	"Sort|ArgSort|TopK|ArgMax|ArgMin|MaxDim|MinDim|IsInf|IsFinite|IsNaN|Norm|Hook|" +
	"KthValue|(Nan)?Median(Dim)?|ModeDim|CumMax|CumMin|UniqueConsecutive|MaxPool[12]dIndices|MaxUnpool[12]d|IsClose|Signbit|IsPosInf|IsNegInf|Heaviside|Copysign|CDist|PDist|Dist)$")

// compareAll returns the first difference, or reports that it is meant: what follows, gradients too, differs for the same reason.
func (p *Program) compareAll(kind string, ours, torch map[string]Value) (d *Difference, meant bool) {
	for _, name := range p.order(torch) {
		o, ok := ours[name]
		if !ok {
			return p.at("value", name, "Cistern has none"), false
		}
		if d := p.compare(kind, name, o, torch[name]); d != nil {
			if d.declared() || p.jumps(d, ours, torch) || p.cancels(d) {
				return nil, true
			}
			return d, false
		}
	}
	for name := range ours {
		if _, ok := torch[name]; !ok {
			return p.at("value", name, "PyTorch has none"), false
		}
	}
	return nil, false
}

// order lists values as they were made, gradients the other way round would not matter.
func (p *Program) order(values map[string]Value) []string {
	var names []string
	for n := range values {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := p.index(names[i]), p.index(names[j])
		return a < b || a == b && names[i] < names[j]
	})
	return names
}

func (p *Program) index(value string) int {
	return slices.IndexFunc(p.Steps, func(s Step) bool { return s.name() == stepOf(value) })
}

func (p *Program) at(kind, name, detail string) *Difference {
	d := p.difference(kind, p.index(name), detail)
	d.Where = name
	return d
}

func (p *Program) compare(kind, name string, ours, torch Value) *Difference {
	d := p.at(kind, name, "")
	if torch.DType == "none" && strings.Trim(ours.Data, "-0 ") == "" {
		return nil // PyTorch has no gradient where it is 0
	}
	if p.Backward != nil && p.Backward.Twice && ours.DType == "none" && strings.Trim(torch.Data, "-.0 ") == "" {
		return nil // nor has Cistern one of what is constant
	}
	switch {
	case ours.DType != torch.DType:
		d.Kind, d.Detail = kind+" dtype", fmt.Sprintf("%s %v, PyTorch %s %v", ours.DType, ours.Shape, torch.DType, torch.Shape)
	case !slices.Equal(ours.Shape, torch.Shape):
		d.Kind, d.Detail = kind+" shape", fmt.Sprintf("%v, PyTorch %v", ours.Shape, torch.Shape)
	default:
		rule := inexact
		switch {
		case kind == "value" && p.isExact(d.Op):
			rule = exactly
		case p.huge:
			rule = overflowing
		}
		d.Detail = differentElement(ours, torch, rule)
	}
	if d.Detail == "" {
		return nil
	}
	if kind == "gradient" {
		d.Detail += p.through(d.Step)
	}
	return d
}

// through names the operations that a gradient of a step may have come through.
func (p *Program) through(step int) string {
	after := map[string]bool{p.Steps[max(step, 0)].name(): true}
	text := "; through"
	if step >= 0 && p.Steps[step].Op != "Input" {
		text += " " + p.Steps[step].Op // parameters of layers have gradients too
	}
	for _, s := range p.Steps[step+1:] {
		if slices.ContainsFunc(s.uses(), func(v string) bool { return after[stepOf(v)] }) {
			after[s.name()] = true
			text += " " + s.Op
		}
	}
	return text
}

// differentElement names the first element that is too far from PyTorch's.
func differentElement(ours, torch Value, rule rule) string {
	a, b, spread := strings.Fields(ours.Data), strings.Fields(torch.Data), strings.Fields(torch.Spread)
	if len(a) != len(b) {
		return fmt.Sprintf("%d elements, PyTorch %d", len(a), len(b))
	}
	for i := range a {
		allowed := 0.0
		if len(spread) > 0 {
			allowed, _ = strconv.ParseFloat(spread[i], 64)
		}
		if !near(ours.DType, a[i], b[i], allowed) && !rule.accepts(ours.DType, a[i], b[i], allowed) {
			return fmt.Sprintf("element %d is %s, PyTorch's is %s ± %v; %s, PyTorch %s", i, a[i], b[i], slack*allowed, short(a), short(b))
		}
	}
	return ""
}

func short(words []string) string {
	if len(words) > 24 {
		words = append(slices.Clone(words[:24]), "...")
	}
	return fmt.Sprint(words)
}

// near compares two elements. Less than a few of the least numbers of a type is nothing: units in the last place are no smaller.
func near(dtype, a, b string, spread float64) bool {
	if a == b || math.IsInf(spread, 1) {
		return true
	}
	x, ex := strconv.ParseFloat(a, 64)
	y, ey := strconv.ParseFloat(b, 64)
	if ex != nil || ey != nil {
		return false
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.IsNaN(x) && math.IsNaN(y)
	}
	if dtype == "int64" && spread == 0 {
		return false // the words differ
	}
	if x == y {
		return true
	}
	if spread == 0 {
		return false
	}
	return math.Abs(x-y) <= slack*spread+least[dtype]
}

// rule says which differences are accepted that are more than rounding errors.
type rule int

const (
	exactly     rule = iota // none
	inexact                 // of overflow, and where no digit is certain
	overflowing             // also infinity for NaN: a program with huge numbers may subtract what overflows, or not
)

func (r rule) accepts(dtype, a, b string, spread float64) bool {
	if r == exactly {
		return false
	}
	return overflows(dtype, a, b) || uncertain(a, b, spread) || r == overflowing && special(a) && special(b)
}

func special(a string) bool {
	x, _ := strconv.ParseFloat(a, 64)
	return math.IsNaN(x) || math.IsInf(x, 0)
}

// uncertain reports whether rounding errors may move one of two elements by far more than its size, so that the other may be special.
func uncertain(a, b string, spread float64) bool {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	if special(a) == special(b) {
		return false
	}
	if special(a) {
		x = y
	}
	return spread > max(1, math.Abs(x))
}

// hugeNumbers reports whether a finite number of PyTorch's has a square that overflows.
func hugeNumbers(values map[string]Value) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(values)), func(v Value) bool {
		return most[v.DType] > 0 && v.exceeds(math.Sqrt(most[v.DType]))
	})
}

// largeNumbers reports whether a finite number is greater than rounding errors of float32 are small.
func largeNumbers(values map[string]Value) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(values)), func(v Value) bool { return v.exceeds(1e6) })
}

// exceeds reports whether a finite element is greater than limit, or less than its negative.
func (v Value) exceeds(limit float64) bool {
	for word := range strings.FieldsSeq(v.Data) {
		if x, _ := strconv.ParseFloat(word, 64); math.Abs(x) > limit && !math.IsInf(x, 0) {
			return true
		}
	}
	return false
}

// overflows reports whether one of two elements is infinite and the other nearly so, with the same sign: whether a sum or a product
// overflows on the way to a result of this size is a matter of order. That of an operation that is exact overflows where it
// must.
func overflows(dtype, a, b string) bool {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	if math.IsInf(x, 0) {
		x, y = y, x
	}
	return math.IsInf(y, 0) && math.Signbit(x) == math.Signbit(y) && most[dtype] > 0 && math.Abs(x) >= most[dtype]/64
}

// most is the largest number of each type.
var most = map[string]float64{"float32": math.MaxFloat32, "float64": math.MaxFloat64, "float16": 65504, "bfloat16": 0x1.fep127}

// isExact reports whether a value that an operation made is exact, and was not changed in place since.
func (p *Program) isExact(operation string) bool {
	return exact[operation] && !slices.ContainsFunc(p.Steps, func(s Step) bool { return strings.HasSuffix(s.Op, "InPlace") || s.Op == "CopyFrom" })
}

// exact are the operations that testdata/torch.py lists as EXACT.
var exact = func() map[string]bool {
	_, text, _ := strings.Cut(script, "\nEXACT = set(\"\"\"")
	text, _, _ = strings.Cut(text, `"""`)
	names := map[string]bool{"Input": true}
	for _, name := range strings.Fields(text) {
		names[name] = true
	}
	return names
}()

// least is some of the smallest numbers of each type.
var least = map[string]float64{"float32": 4 * math.SmallestNonzeroFloat32, "float64": 4 * math.SmallestNonzeroFloat64, "float16": 2 * 0x1p-24, "bfloat16": 2 * 0x1p-133}

// pole matches those that are infinite or NaN at some place, which infinite finds in the text of a difference.
var (
	pole     = regexp.MustCompile("^(Div|DivInPlace|Reciprocal|RDivScalar|Rsqrt|Sqrt|Log|Log1p|Log2|Log10|Atan2|Pow|PowScalar|RPowScalar|AddCDiv)$")
	infinite = regexp.MustCompile("is (nan|[-+]?[Ii]nf)")
)

// Declaration is a difference that is meant, with the reason.
type Declaration struct {
	Kind   string         // of the Difference
	Op     *regexp.Regexp // all of the operation's name
	Detail *regexp.Regexp // some of the text
	Reason string
}

func (x Declaration) matches(d *Difference) bool {
	return x.Op.MatchString(d.Op) && x.Detail.MatchString(d.Detail)
}

func declare(kind, op, detail, reason string) Declaration {
	return Declaration{kind, regexp.MustCompile("^(" + op + ")$"), regexp.MustCompile(detail), reason}
}

// Declared are the differences that docs/parity-ops.md and docs/parity-amp.md name, those that the comments of operations do, and what
// PyTorch 1.13 refuses or leaves open where later versions do not.
var Declared = []Declaration{
	declare("refused", ".*InPlace", "shares its memory|its own operand", "in place in a graph: the history of a base is not rewritten"),
	declare("refused", "Dot|MV|MM|BMM|MatMul|Einsum|TensorDot|AddMM|BAddBMM|Linear", "integer|floating", "products of integers are refused"),
	declare("refused", "ScatterAdd.*|IndexAdd.*", "floating", "floating-point types only"),
	declare("refused", "ELU|Hardtanh|ReLU6|LeakyReLU|GELU.*|SiLU|Softplus", "floating", "floating-point types only"),
	declare("refused", "Square|Sign|MaxDim|MinDim|Max|Min|ArgMax|ArgMin|Sort|ArgSort|TopK|Abs|Floor|Ceil|Round|Trunc|ReLU.*|Clamp.*|Maximum|Minimum", "not defined for bool|bools? ",
		"bools have no order and no sign here"),
	declare("refused", "(Add|Sub|Mul|AddScalar|MulScalar|Neg|AddCMul)InPlace|AddScaled|AddCMul", "bool", "no arithmetic in place on bools"),
	declare("not refused", "Fmod|Remainder|FloorDivide|FmodScalar|RemainderScalar", "ZeroDivisionError", "integers: 0 where the divisor is 0"),
	declare("not refused", "BCELoss", "between 0 and 1", "predictions outside of 0..1 give NaN"),
	declare("not refused", "BCELoss|BCEWithLogitsLoss|CrossEntropy|NLLLoss", "is not differentiable with respect to argument",
		"a weight that requires a gradient is taken, and gets none or, as in later versions of PyTorch, its own"),
	declare("not refused", "backward", "Expected a proper Tensor but got None", "an internal error of PyTorch 1.13"),
	declare("not refused", "InstanceNorm|nn.InstanceNorm.*", "select\\(\\): index 0 out of range", "an internal error of PyTorch 1.13 for empty batches"),
	declare("not refused", "InstanceNorm|nn.InstanceNorm.*", "Expected more than 1 spatial element", "of a batch without channels"),
	declare("refused", "MaxPool1d", "larger than the padded image", "PyTorch 1.13 gives an empty result in one dimension; later versions refuse"),
	declare("refused", "Adaptive(Avg|Max)Pool.*|AvgPool.*|MaxPool.*", "only the batch may be empty", "images without channels or elements"),
	declare("refused", "LogSumExp", "needs a floating-point type", "floating-point types only"),
	declare("refused", ".*InPlace|CopyFrom", "several elements share an address", "PyTorch warns where an operation writes to expanded elements, or refuses"),
	declare("not refused", "Pad|Upsample.*", "Non-empty 4D|with possibly 0 batch size", "what is empty stays empty"),
	declare("not refused", "Pad", "exceeds dimension size", "an internal error of PyTorch 1.13 for empty tensors"),
	declare("refused", "SGD|RMSprop|Adam.*|Adagrad", "has no momentum that could be cycled", "OneCycleLR says so where PyTorch fails for one optimizer and not for another"),
	declare("value", "To|Input", "PyTorch's is (-2147483648|-9223372036854775808|0) ", "integers of NaN and of numbers that they do not hold are left open"),
	declare("value", "(Fmod|Remainder)(Scalar)?", "PyTorch's is nan ", "the remainder is exact, where PyTorch's quotient overflows"),
	declare("refused", "(Log)?Softmax", "needs a floating-point type", "PyTorch takes integers if there are none"),
	declare("not refused", "Pad", "tensor expected for input, but got", "what is empty stays empty"),
	declare("refused", "backward", "modified by an in-place operation: .*of (l1_loss|smooth_l1_loss|huber_loss|mse_loss|scaled_dot_product_attention)", "PyTorch's loss or attention saves what this one does not, and the other way round"),
	declare("not refused", "backward", "output 0 of ProdBackward[01], is at version", "Prod saves its input alone"),
	declare("not refused", "View", "view size is not compatible", "results are contiguous; PyTorch's may have the strides of an operand"),
	declare("value", "LayerNorm|GroupNorm|RMSNorm|InstanceNorm", "PyTorch's is (nan|-?0.0) ", "moments are formed in float64 where squares overflow; and weights are applied last"),
	declare("value", "nn.MultiheadAttention", "PyTorch's is nan ", "a row of scores that are all minus infinity gives 0, as in later versions"),
	declare("value", "Lerp(Scalar)?", "is nan, PyTorch's is -?inf ", "weights of -1/2 and less count from the end, as on PyTorch's GPUs"),
	declare("not refused", ".*InPlace|CopyFrom", "refer to a single memory location", "operands that overlap what is written are copied first"),
	declare("not refused", "backward", "modified by an inplace operation.*; of .*NLLLoss", "NLLLoss saves neither its input nor weights of classes"),
	declare("refused", "View", "do not allow this view.*; of .*Attention", "results of attention lie so that heads join without a copy"),
	declare("value", "Polygamma", "is -?0, PyTorch's is nan ", "0 at infinity, where PyTorch's zeta function is NaN"),
	declare("value", "FloorDivide", "is [-+]Inf, PyTorch's is nan ", "the quotient of a subnormal number overflows before PyTorch takes its floor"),
	declare("value", "PowScalar", "is nan, PyTorch's is (0.0|inf) ", "the square root of minus infinity; PyTorch's float16 alone takes the power"),
	declare("gradient", ".*", "is nan, PyTorch's is -?0.*; through.* Logit", "the slope at NaN is NaN; vectors of PyTorch 1.13 lose it"),
	declare("value", "Softshrink", "is nan, PyTorch's is -?0", "NaN stays NaN, as in later versions"),
	declare("value", "RDivScalar", "PyTorch's is (nan|inf|-inf) ", "PyTorch multiplies by the reciprocal, which overflows"),
	declare("value", "Log1p", "PyTorch's is inf ", "PyTorch 1.13's log1p overflows at the largest numbers"),
	declare("not refused", "Diag", "integer multiplication overflow", "a diagonal outside of the matrix is empty, as in later versions"),
	declare("not refused", "Pad|backward", "resulted in a negative output size", "what is cut away altogether is empty, as in later versions"),
	declare("not refused", "Pad", "Dimension out of range", "an internal error of PyTorch 1.13 for empty tensors"),
	declare("not refused", "Adam.*|SGD|RMSprop|Adagrad", "Expected reduction dim to be specified for input.numel\\(\\) == 0", "the norm of a gradient without elements is 0"),
	declare("value dtype", "Any|All", "bool .*, PyTorch uint8", "always bool; PyTorch keeps uint8"),
	declare("gradient", ".*", "PyTorch's is nan .*; through.* CumProd", "the gradient of a running product divides by nothing, PyTorch's by elements that are NaN"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* CrossEntropy", "rows that are ignored have a gradient of 0, whatever their logits"),
	declare("gradient", ".*", "(is nan, PyTorch|PyTorch's is nan ).*; through.* (nn\\.)?Conv", "whether infinite gradients meet the zeros of a padding is an algorithm's choice, also PyTorch's"),
	declare("gradient", ".*", "(is nan, PyTorch|PyTorch's is nan ).*; through.* (nn.Multihead)?Attention", "where a row of scores is infinite, or a key or a value is, one of the two may multiply it by 0"),
	declare("gradient", ".*", "is (-?0|[-+]Inf), PyTorch's is nan .*; through.* Norm", "(|x|/norm)^(p-1) of a norm that is infinite, where PyTorch divides two infinities"),
	declare("gradient", ".*", "is [-+]Inf, PyTorch's is nan .*; through.* (nn\\.)?(Layer|Group|Instance|Batch|RMS)Norm", "infinite gradients that are subtracted, in another order"),
	declare("gradient", ".*", "is [-+]Inf, PyTorch's is nan .*; through.* nn\\.(GRU|LSTM)", "the cell is one operation, in which no derivative is rounded to 0"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* Softsign", "the slope at infinities is 0, where PyTorch's quotient has two of them"),
	declare("gradient", ".*", "is nan, PyTorch's is inf .*; through.* BCEWithLogitsLoss", "the gradient of a target where the logit is infinite and the weight is 1"),
	declare("value", "UpsampleBilinear2d", "is nan, PyTorch's is ", "a neighbour with a share of 0 is multiplied by it"),
	declare("gradient", ".*", "PyTorch's is nan .*; through.* Prod", "the product of no other elements is 1, where PyTorch divides that of all"),
	declare("value", "Conv(Transpose)?[12]d", "is nan, PyTorch's is ", "whether infinities and NaN meet the zeros of a padding is an algorithm's choice"),
	declare("value", "Conv[12]d", "is [-+]Inf, PyTorch's is nan ", "a product that overflows is added before it is rounded"),
	declare("not refused", "backward", "modified by an inplace operation.*; of .*(AddCDiv|AvgPool|RPowScalar|BCEWithLogitsLoss)", "saves what gradients need alone"),
	declare("value", "Attention", "PyTorch's is nan ", "queries are scaled before they are multiplied: scores that overflow in PyTorch are finite"),
	declare("value", "MulScalar(InPlace)?", "PyTorch's is nan ", "PyTorch rounds the number to half, in which it is infinite"),
	declare("value", "KLDivLoss|BCEWithLogitsLoss", "PyTorch's is -?inf ", "losses are formed in float64 on the processor, where PyTorch's overflow"),
	declare("value", "Softsign", "PyTorch's is (-?1.0|inf) ", "in PyTorch the size of the least integer is negative, and one more than the greatest is the least"),
	declare("refused", ".*", "not defined for bool", "no arithmetic on bools"),
	declare("refused", "MatMul|Linear.*|MM|BMM|MV|Dot|Einsum|TensorDot", "operands must have one type", "PyTorch does not look at the types of empty operands"),
	declare("refused", "backward", "modified by an in-place operation: .*(input 1 of take_along_dim|workspace 0 of sort|of (gru|lstm)|of (gelu_tanh|log_softmax|hardswish)|of (rms_norm|instance_norm_affine|tensordot|embedding|kl_div)|the output of div_)", "saves what PyTorch's operation does not"),
	declare("not refused", "Scatter.*", "Expected self.dtype to be equal to src.dtype", "if nothing is written no types are compared"),
	declare("gradient", ".*", "\\[0( 0)*\\], PyTorch \\[nan( nan)*\\]; through.* GroupNorm", "weights of an empty batch have a gradient of 0"),
	declare("gradient", ".*", "is ([-+]Inf|-?0), PyTorch's is nan .*; through.* RDivScalar", "PyTorch multiplies by the square of the reciprocal, which vanishes"),
	declare("gradient", ".*", "is nan, PyTorch's is .*; through.* (nn.)?Hardswish", "the slope at NaN is NaN, as in later versions; vectors of PyTorch 1.13 lose it"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* AddCDiv", "times 0, or summed over nothing, no quotient is formed"),
	declare("gradient", ".*", "is [-+]Inf, PyTorch's is nan .*; through.* (nn.)?Mish", "the slope at infinity is 1, where PyTorch multiplies infinity by 0"),
	declare("gradient dtype", "Hook", "none .*, PyTorch ", "a cell's new state is no input of its new output: both are results of one operation"),
	declare("gradient dtype", ".*", "PyTorch none .*; through.* Norm", "the gradient of a count of elements (p of 0) is 0, in PyTorch there is none"),
	declare("value", "PowScalar", "is nan, PyTorch's is inf ", "the square root of minus infinity, as in PyTorch for float32"),
	declare("value", "Lerp(Scalar)?", "is nan, PyTorch's is 0.0 ", "the same, and ReLU in place after it"),
	declare("not refused", "backward", "memory descriptor using strides", "an internal error of PyTorch 1.13"),
	declare("not refused", "backward", "is the output of a function that returns multiple views", "parts are views like others"),
	declare("not refused", "backward", "modified by an inplace operation.*; of .*MaxPool", "saves where the maxima are, not the image"),
	declare("not refused", "backward", "grad_input must be contiguous", "an internal error of PyTorch 1.13"),
	declare("not refused", "FloorDivide", "ZeroDivisionError", "integers divided by 0 are 0"),
	declare("value", "Polygamma", "is -?0, PyTorch's is nan ", "at infinity it is 0, where PyTorch's zeta function is NaN"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* RPowScalar", "of powers of 0 PyTorch's second derivatives multiply 0 by its logarithm"),
	declare("gradient", ".*", "is [-+.0-9]+, PyTorch's is -?0.0 .*; through.* BCELoss", "in PyTorch's second derivative numbers near 0 and 1 vanish beside 1e-12, or are divided by its square"),
	declare("gradient", ".*", `is -?[0-9.]+e\+[12][0-9], PyTorch's is -?[0-9.]+e\+[12][0-9] .*; through.* BCELoss`, "the same"),
	declare("gradient", ".*", `is (-?0|-?[0-9.]+e-1[6-9]), PyTorch's is (-?0.0|-?[0-9.]+e-1[6-9]) .*; through.* CrossEntropy`, "a second derivative that is 0 but for rounding errors"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* (GELU|LinearGELU)", "far from 0 the second derivative is 0, where PyTorch's squares overflow"),
	declare("not refused", "backward", "can't retain_grad on Tensor that has requires_grad=False; of.* (Vander|Combinations)", "the same"),
	declare("not refused", "(Nan)?Quantile", "must be non-empty", "what is empty stays empty"),
	declare("refused", "Median", "has no elements", "there is no median of no integers"),
	declare("value", "(Cumulative)?Trapezoid", "PyTorch's is nan ", "PyTorch subtracts half of the ends from the sum, which may be infinite"),
	declare("value", "CDist", "is nan, PyTorch's is ", "NaN is the greatest; PyTorch's vectors lose it"),
	declare("gradient", ".*", "PyTorch's is -?0.0 .*; through.* ClampTo", "where the limits are equal, and the element is less, PyTorch gives neither of them a gradient"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* Sinc", "the second derivative at 0, which PyTorch's quotient does not have; it is taken for 0"),
	declare("not refused", "(Cumulative)?Trapezoid", "bool is not supported", "bools are numbers, as in other sums"),
	declare("gradient", ".*", "is -?0, PyTorch's is nan .*; through.* NanMean", "the mean of no numbers has no gradient, where PyTorch divides 0 by their count"),
	declare("gradient dtype", ".*", "none .*, PyTorch .*; through.* Copysign", "the second derivative is 0, in PyTorch but for rounding errors"),
	declare("refused", "CumMax|CumMin", "dimension .* is not in", "PyTorch takes any dimension of what has none"),
	declare("refused", "CumMax|CumMin", "bools have no order", "as for Max"),
	declare("refused", "Hypot|LogAddExp2", "needs floating-point types", "floating-point types only"),
	declare("value dtype", "(Cumulative)?Trapezoid", "float.*, PyTorch ", "the integral of no bools or integers is of a floating-point type, as others are"),
	declare("not refused", "backward", "does not require grad and does not have a grad_fn; of.* (Vander|Combinations)", "PyTorch forgets what nothing is made of"),
	declare("not refused", "backward", "differentiated Tensors does not require grad; of.* (Vander|Combinations)", "the same"),
	declare("gradient dtype", ".*", "none .*, PyTorch .*; through.* (Put|IndexReduce|DiagonalScatter|SliceScatter|SelectScatter|MaskedScatter)", "what has no elements has no gradient"),
	declare("gradient", ".*", "PyTorch's is nan .*; through.* IndexReduce", "PyTorch divides the product of all by each"),
	declare("value", "StdMean|VarMean", "is [-+]Inf, PyTorch's is nan ", "PyTorch's running mean subtracts infinities"),
	declare("value", "Sum|SumTo|Mean|Prod|CumSum|CumProd|Norm|Var|Std|Dot|MM|MV|BMM|MatMul|Einsum|TensorDot|Linear.*|AddMM|BAddBMM|LogSumExp|AvgPool.*|AdaptiveAvgPool.*",
		"PyTorch's is (inf|-inf|nan) ", "sums and products are formed in float64 on the processor, where PyTorch's overflow"),
}
