package tensor_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

// elsewhere are the exported functions of tensors that take or give Go slices, and where they are tested and refused something.
var elsewhere = map[string]string{
	"BatchNormTraining":   "BatchMoments and BatchNorm in one: autograd's goldens of batch norm, and nn, run it",
	"gradients.Recurrent": "recurrent_test.go",
	"gradients.Indexing":  "Index runs the same",
	"AllClose":            "isclose_test.go",
	"Equal":               "isclose_test.go",
	"ToSlice":             "host_test.go: TestHostCopies_RefuseWhatDoesNotFit, TestHostCopies_ReportTheDevicesErrors",
	"CopyOver":            "captured_test.go",
	"Addresses":           "addresses_test.go",
	"CopyFromSlice":       "the same, and inplace_test.go: TestInPlace_RefusesTensorsWhoseElementsShareAnAddress",
}

// takesAnything are the operations that no type, shape or number of the kind that they ask for can make fail.
var takesAnything = map[string]string{
	"Contiguous": "copies what it is given", "Clone": "copies what it is given", "To": "every type converts to every other",
	"ZeroInPlace": "", "EmptyLike": "", "ZerosLike": "", "OnesLike": "", "Nonzero": "", "Unique": "", "IsIn": "",
	"EqScalar": "", "NeScalar": "", "LtScalar": "", "LeScalar": "", "GtScalar": "", "GeScalar": "",
	"ToDevice": "brings every tensor to every device", "FmodScalar": "", "RemainderScalar": "", "RDivScalar": "", "RPowScalar": "",
}

// The first word of a name is the operation: the rest tells samples apart.
func operationOf(name string) string {
	first, _, _ := strings.Cut(name, " ")
	return first
}

func TestEveryFunctionOfTensors_IsAmongTheTestedOperations(t *testing.T) {
	tested := map[string]bool{}
	for name := range operations {
		for _, n := range functionNames(operationOf(name)) {
			tested[n] = true
		}
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || !takesTensors(fn) || fn.Recv != nil && !moduleOnly(fn.Recv) {
				continue
			}
			name := functionName(fn)
			require.True(t, tested[name] || elsewhere[name] != "", "%s: %s, a function of tensors, is not among the tested operations", f.Name(), name)
		}
	}
}

// functionName is the name of a function or method, with that of the receiver for what only this module sees, as in "steps.SGD".
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || !moduleOnly(fn.Recv) {
		return fn.Name.Name
	}
	return fn.Recv.List[0].Type.(*ast.Ident).Name + "." + fn.Name.Name
}

// functionNames are what the function of an operation may be called.
func functionNames(op string) []string {
	names := []string{op, "steps." + strings.TrimPrefix(strings.TrimSuffix(op, "Step"), "Amp")}
	switch {
	case strings.Contains(op, "Grad"), strings.HasSuffix(op, "Sums"), strings.HasSuffix(op, "Forward"), strings.HasSuffix(op, "Pre"), strings.HasSuffix(op, "Pick"):
		names = append(names, "gradients."+strings.Replace(op, "Grad", "", 1))
	}
	return names
}

// moduleOnly reports whether a method is one of what Gradients and Steps return.
func moduleOnly(recv *ast.FieldList) bool {
	of, ok := recv.List[0].Type.(*ast.Ident)
	return ok && (of.Name == "gradients" || of.Name == "steps")
}

// takesTensors reports whether a function has a parameter of one or more tensors and may fail.
func takesTensors(fn *ast.FuncDecl) bool {
	results := fn.Type.Results
	if results == nil || len(results.List) == 0 {
		return false
	}
	if id, ok := results.List[len(results.List)-1].Type.(*ast.Ident); !ok || id.Name != "error" {
		return false
	}
	found := false
	ast.Inspect(fn.Type.Params, func(n ast.Node) bool {
		if s, ok := n.(*ast.StarExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && id.Name == "Tensor" {
				found = true
			}
		}
		return true
	})
	return found
}

// What only this module calls belongs to Gradients and Steps. Gradients of element-wise operations are methods of Tensor.
func TestFunctionsThatAreExported_AreNeitherGradientsNorSteps(t *testing.T) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil && moduleOnly(fn.Recv) || !fn.Name.IsExported() || fn.Name.Name == "Gradients" || fn.Name.Name == "Steps" {
				continue
			}
			require.NotRegexp(t, "Grad|Backward|Step$", fn.Name.Name, f.Name())
		}
	}
}

func TestEveryOperation_HasARefusal_OrTakesAnything(t *testing.T) {
	refused := map[string]bool{}
	for _, r := range refusals {
		refused[operationOf(r.op)] = true
	}
	for name := range operations {
		name = operationOf(name)
		_, anything := takesAnything[name]
		assert.NotEqual(t, refused[name], anything, "%s: is refused something: %v; takes anything: %v", name, refused[name], anything)
	}
}

// takesAllTypes are the operations of several tensors that promote their types, or convert one to that of the other.
var takesAllTypes = map[string]bool{
	"Add": true, "AddScaled": true, "Outer": true, "Cat": true, "Stack": true,
	"CopyFrom": true, "IsIn": true,
}

// takesAllShapes are the operations of several tensors whose shapes have nothing to do with each other.
var takesAllShapes = map[string]bool{"GradNorm": true, "ClipGradValue": true, "IsIn": true}

func TestEveryOperationOfSeveralTensors_RefusesShapesAndTypesThatDoNotFit(t *testing.T) {
	refused := map[string]bool{}
	for _, r := range refusals {
		refused[operationOf(r.op)+" "+string(r.want)] = true
	}
	for _, s := range samples {
		name := operationOf(s.op)
		if !strings.Contains(s.in, "] ") {
			continue
		}
		assert.NotEqual(t, refused[name+" shape"], takesAllShapes[name], "%s: refuses a shape: %v", name, refused[name+" shape"])
		assert.NotEqual(t, refused[name+" dtype"], takesAllTypes[name], "%s: refuses a type: %v", name, refused[name+" dtype"])
	}
}

// typed reports whether err is one of the package's typed errors of this operation, and names it.
func typed(t *testing.T, op string, err error) {
	t.Helper()
	var shape *tensor.ShapeError
	var types *tensor.DTypeError
	var value *tensor.ValueError
	var device *tensor.DeviceError
	name := ""
	switch {
	case errors.As(err, &shape):
		name = shape.Op
		require.NotEmpty(t, shape.Shapes, "%v", err)
	case errors.As(err, &types):
		name = types.Op
		require.NotEmpty(t, types.DTypes, "%v", err)
	case errors.As(err, &value):
		name = value.Op
	case errors.As(err, &device):
		name = device.Op
		require.Len(t, device.Devices, 2, "%v", err)
	}
	require.Equal(t, operationOf(op), name, "%s: %v", op, err)
}

// helped are the operations that the tests run through another one first, which may be the one that refuses. For each there is
// one that is given what the other makes, by the name with "given" behind it.
var helped = map[string]bool{
	"SoftmaxGrad": true, "LogSoftmaxGrad": true, "AttentionGrad": true,
	"AttentionGradInto": true, "LayerNormGrad": true, "LayerNormSums": true, "GroupNormGrad": true, "GroupNormSums": true, "BatchNorm": true,
	"BatchNormGrad": true, "EmbeddingBagGrad": true, "LayerNormGradAdd": true,
}

func TestHelpedOperations_AreTestedWithoutHelp(t *testing.T) {
	for name := range helped {
		require.Contains(t, operations, name)
		require.Contains(t, operations, name+" given")
	}
}

func TestEveryOperation_RefusesOperandsOnAnotherDevice(t *testing.T) {
	for _, s := range samples {
		if s.op == "CopyFrom" || helped[s.op] { // CopyFrom brings its source over
			continue
		}
		b, _ := onSim(t)
		other, _ := onSim(t)
		in, there := s.inputs(t, b.Exec), s.inputs(t, other.Exec)
		for k := 1; k < len(in); k++ {
			if s.op == "EinsumGrad" && k == 1 { // the operand whose gradient is asked for is not read
				continue
			}
			mixed := append(tensors{}, in...)
			mixed[k] = there[k]
			before := b.allocated() + other.allocated()
			_, err := s.run(mixed)
			require.Error(t, err, "%v with input %d on another device", s, k)
			var device *tensor.DeviceError
			require.ErrorAs(t, err, &device, "%v", s)
			typed(t, s.op, err)
			require.Equal(t, before, b.allocated()+other.allocated(), "%v", s)
		}
	}
}

// with is the sample with another input k.
func (s sample) with(k int, spec string) sample {
	specs := strings.Split(strings.ReplaceAll(s.in, "] ", "]|"), "|")
	specs[k] = spec
	s.in = strings.Join(specs, " ")
	return s
}

// variants are the sample with each input in turn of every type and of unusual shapes.
func (s sample) variants() []sample {
	var list []sample
	specs := strings.Split(strings.ReplaceAll(s.in, "] ", "]|"), "|")
	for k, spec := range specs {
		spec = strings.TrimPrefix(spec, "~")
		name, shape, _ := strings.Cut(spec, "[")
		for _, d := range dtype.All() {
			list = append(list, s.with(k, d.String()+"["+shape))
		}
		for _, other := range []string{"[]", "[0]", "[1]", "[7]", "[2 0]", "[7 5]", "[2 3 2 3]"} {
			list = append(list, s.with(k, name+other))
		}
	}
	return list
}

func TestEveryOperation_TakesOrRefusesEveryTypeAndShape_AndKeepsNothing(t *testing.T) {
	b, _ := onZeros(t)
	refused := 0
	for _, s := range samples {
		if helped[s.op] {
			continue
		}
		for _, v := range s.variants() {
			in := v.inputs(t, b.Exec)
			before := b.allocated()
			out, err := v.run(in)
			if err == nil {
				out.Release()
			} else if !errors.Is(err, errInjected) { // no piece to return
				refused++
				typed(t, v.op, err)
			}
			require.Equal(t, before, b.allocated(), "%v kept memory", v)
			for _, x := range in {
				x.Release()
			}
		}
	}
	require.Greater(t, refused, 500)
}
