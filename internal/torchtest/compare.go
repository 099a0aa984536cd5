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
	p.placed = map[string]bool{}
	for name, v := range torch.Values {
		p.placed[name] = slices.Equal(ours.Values[name].Order, v.Order) && (len(v.Order) > 0 || len(v.Shape) < 2)
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
	i := slices.IndexFunc(Declared, func(x Declaration) bool { return x.Kind == d.Kind && x.matches(d) })
	if i < 0 {
		return false
	}
	Declared[i].used++
	return true
}

// jumps reports whether a value differs because the operation is not continuous, or was given what PyTorch's was not, to within
// rounding errors: two numbers that one of them finds equal, say.
func (p *Program) jumps(d *Difference, ours, torch map[string]Value) bool {
	if d.Kind != "value" && !(d.Kind == "value shape" && d.Op == "UniqueConsecutive") || d.Step < 0 || d.Step >= len(p.Steps) {
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
		return differentElement(ours[v], Value{Data: torch[v].Data}, exactly, bounds{slack: slack}) != "" || pole.MatchString(d.Op) && differentZero(ours[v], torch[v])
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
	if ours.DType == "none" && len(torch.Shape) > 0 && torch.Data == "" {
		return nil // nor has Cistern one of what has no elements
	}
	if p.Backward != nil && p.Backward.Twice && ours.DType == "none" && torch.vanishes() {
		return nil // or of what is constant
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
		case kind == "gradient" && p.secondOf(name):
			rule = undefined
		case p.huge:
			rule = overflowing
		}
		certain := 0.0
		switch {
		case kind != "gradient" || p.Backward == nil:
		case p.Backward.Twice:
			certain = 4 * epsilon[ours.DType]
		case normalized.MatchString(p.through(d.Step)):
			certain = epsilon[ours.DType]
		}
		d.Detail = differentElement(ours, torch, rule, bounds{certain: certain, slack: p.slack(kind, d.Step)})
		if d.Detail == "" && p.misplaced(d, ours, torch) {
			d.Kind, d.Detail = kind+" strides", fmt.Sprintf("%v, PyTorch %v", ours.Order, torch.Order)
		}
	}
	if d.Detail == "" {
		return nil
	}
	if kind == "gradient" {
		d.Detail += p.through(d.Step)
	} else {
		d.Detail += p.changed(d.Step)
	}
	return d
}

// misplaced reports whether an operation that keeps memory formats has a result in another one than PyTorch's. Other orders than those of a
// format are not kept: there PyTorch's results are its own.
func (p *Program) misplaced(d *Difference, ours, torch Value) bool {
	if !strings.HasPrefix(d.Kind, "value") || !placing[d.Op] || len(torch.Order) < 4 || len(torch.Order) > 5 || slices.Contains(torch.Shape, 0) || slices.Equal(ours.Order, torch.Order) {
		return false
	}
	for _, operand := range p.Steps[d.Step].uses() {
		if !p.placed[operand] {
			return false // they were not the same before
		}
	}
	return torch.formatted()
}

// placing are the operations whose results have the memory format of their operands. Convolutions have too, but PyTorch's on the processor choose between
// several implementations, of which some do not.
var placing = map[string]bool{
	"Abs": true, "Neg": true, "ReLU": true, "Exp": true, "Tanh": true, "Sigmoid": true, "AddScalar": true, "MulScalar": true, "Add": true, "Sub": true, "Mul": true,
	"Maximum": true, "Where": true, "Lerp": true, "To": true, "Cat": true, "Clone": true, "Contiguous": true, "ToMemoryFormat": true, "Flip": true,
	"MaxPool2d": true, "AvgPool2d": true, "AdaptiveAvgPool2d": true, "AdaptiveMaxPool2d": true,
}

// formatted reports whether the elements lie without gaps, the channels first or last.
func (v *Value) formatted() bool {
	n := len(v.Shape)
	first, last := make([]int, n), []int{1}
	for d := range n {
		first[d] = n - 1 - d
		if d < n-2 {
			last = append(last, n-1-d)
		}
	}
	last = append(last, 0)
	for _, order := range [][]int{first, last} {
		step, fits := 1, true
		for _, d := range order {
			fits = fits && (v.Shape[d] == 1 || v.Order[d] == step)
			step *= v.Shape[d]
		}
		if fits {
			return true
		}
	}
	return false
}

// secondOf reports whether a gradient is a second derivative.
func (p *Program) secondOf(name string) bool {
	return p.Backward != nil && p.Backward.Twice && !strings.HasSuffix(name, ".first")
}

// changed names the operations that may have written to a value after its step, in place of it or of a view.
func (p *Program) changed(step int) string {
	text := ""
	for _, s := range p.Steps[max(step, 0):] {
		if strings.HasSuffix(s.Op, "InPlace") || s.Op == "CopyFrom" {
			text += " " + s.Op
		}
	}
	if text != "" {
		text = "; written by" + text
	}
	return text
}

// through names the operations that a gradient of a step may have come through.
func (p *Program) through(step int) string {
	after := map[string]bool{p.Steps[max(step, 0)].name(): true}
	text := "; through"
	from := step + 1
	if step >= 0 && p.Steps[step].Op == "Hook" { // it is its operand, with a hook
		for _, v := range p.Steps[step].uses() {
			after[stepOf(v)], from = true, 0
		}
	}
	if step >= 0 && p.Steps[step].Op != "Input" {
		text += " " + p.Steps[step].Op // parameters of layers have gradients too
	}
	for _, s := range p.Steps[from:] {
		if slices.ContainsFunc(s.uses(), func(v string) bool { return after[stepOf(v)] }) {
			after[s.name()] = true
			text += " " + s.Op
		}
	}
	return text
}

// normalized matches what gradients have come through a norm: of the two elements of a row, say, of which one becomes 1 and the other -1 whatever they are.
var normalized = regexp.MustCompile(`through.* (nn\.)?(LayerNorm|GroupNorm|InstanceNorm|BatchNorm)`)

// epsilon is the distance of 1 to the next number. The terms of second derivatives are of about the size of 1 here and cancel, so that less than a few of it is no
// digit that is certain, also where PyTorch's own rounding errors happen to be 0.
var epsilon = map[string]float64{"float32": 0x1p-23, "float64": 0x1p-52, "float16": 0x1p-10, "bfloat16": 0x1p-7}

// bounds are how far elements may be from PyTorch's.
type bounds struct {
	certain float64 // less is nothing
	slack   float64 // times the spread
}

// slack is how many times as far as rounding errors moved PyTorch's own element ours may lie. Within a layer there are a dozen roundings on the way of a gradient,
// which noise disturbs once; and so there are in second derivatives.
func (p *Program) slack(kind string, step int) float64 {
	if kind == "gradient" && (strings.Contains(p.through(step), " nn.") || p.Backward != nil && p.Backward.Twice) {
		return 2 * slack
	}
	return slack
}

// differentElement names the first element that is too far from PyTorch's.
func differentElement(ours, torch Value, rule rule, within bounds) string {
	a, b, spread := strings.Fields(ours.Data), strings.Fields(torch.Data), strings.Fields(torch.Spread)
	if len(a) != len(b) {
		return fmt.Sprintf("%d elements, PyTorch %d", len(a), len(b))
	}
	for i := range a {
		allowed := 0.0
		if len(spread) > 0 {
			allowed, _ = strconv.ParseFloat(spread[i], 64)
		}
		if !near(ours.DType, a[i], b[i], allowed, within) && !rule.accepts(ours.DType, a[i], b[i], allowed) {
			return fmt.Sprintf("element %d is %s, PyTorch's is %s ± %v; %s, PyTorch %s", i, a[i], b[i], within.slack*allowed, short(a), short(b))
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
func near(dtype, a, b string, spread float64, within bounds) bool {
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
		return math.Abs(x-y) <= within.certain
	}
	return math.Abs(x-y) <= max(within.certain, within.slack*spread+least[dtype])
}

// rule says which differences are accepted that are more than rounding errors.
type rule int

const (
	exactly     rule = iota // none, but where no digit is certain
	inexact                 // of overflow, too
	overflowing             // also infinity for NaN: a program with huge numbers may subtract what overflows, or not
	undefined               // also NaN for anything: formulas of second derivatives multiply 0 by infinity, or do not
)

func (r rule) accepts(dtype, a, b string, spread float64) bool {
	switch {
	case uncertain(a, b, spread):
		return true
	case r == exactly:
		return false
	case overflows(dtype, a, b):
		return true
	case r == undefined:
		return strings.EqualFold(a, "nan") || strings.EqualFold(b, "nan") || special(a) && special(b)
	}
	return r == overflowing && special(a) && special(b)
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

// vanishes reports whether all elements are 0 but for rounding errors, or NaN where PyTorch multiplied 0 by infinity.
func (v Value) vanishes() bool {
	zeros := v
	zeros.Data = ""
	for word := range strings.FieldsSeq(v.Data) {
		if word != "nan" {
			word = "0"
		}
		zeros.Data += word + " "
	}
	return differentElement(zeros, v, exactly, bounds{slack: slack}) == ""
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
	pole     = regexp.MustCompile("^(Div|DivInPlace|Reciprocal|RDivScalar|Rsqrt|Sqrt|Log|Log1p|Log2|Log10|Atan2|Lgamma|Digamma|Pow|PowScalar|RPowScalar|AddCDiv)$")
	infinite = regexp.MustCompile("is (nan|[-+]?[Ii]nf)")
)
