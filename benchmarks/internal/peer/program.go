package peer

import (
	"flag"
	"io"
	"time"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/tensor"
)

// Program is a benchmark of calls whose operands have a shape of type S, and float types.
type Program[S any, P comparable, C Case[P]] struct {
	*Bench[P, C]
	Name   string
	Shapes string // those that are measured if -shapes names none
	Form   string // of a shape's text
	Read   func(text string) (S, error)
	Define func(*flag.FlagSet) // more flags; nil for none
	// Ours adds to the report what it could measure of a shape and type, and what not.
	Ours func(r *Report[P, C], e tensor.Exec, d tensor.DType, s S)
}

// Run is main of the program with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags.
func (p *Program[S, P, C]) Run(args []string, stdout, stderr io.Writer) int {
	var shapes []S
	var types []tensor.DType
	return command.Run(p.Name, stderr, func() (err error) {
		shapes, types, err = p.parse(args, stderr)
		return err
	}, func() error {
		r, err := p.Measure(func(e tensor.Exec, r *Report[P, C]) {
			for _, s := range shapes {
				for _, d := range types {
					p.Ours(r, e, d, s)
				}
			}
		})
		if err != nil {
			return err
		}
		return p.Write(stdout, r)
	})
}

func (p *Program[S, P, C]) parse(args []string, stderr io.Writer) (shapes []S, types []tensor.DType, err error) {
	*p.Flags = harness.Flags{Runs: 3, Duration: 20 * time.Millisecond}
	f := command.NewFlagSet(p.Name, stderr)
	p.Flags.Define(f)
	if p.Define != nil {
		p.Define(f)
	}
	shapeList := f.String("shapes", p.Shapes, "`list` of shapes "+p.Form)
	typeList := f.String("types", "float16,bfloat16,float32", "`list` of float types")
	if err := command.Parse(f, args); err != nil {
		return nil, nil, err
	}
	if err := p.Flags.Check(f); err != nil {
		return nil, nil, err
	}
	if shapes, err = harness.List("shapes", *shapeList, p.Read); err != nil {
		return nil, nil, err
	}
	types, err = harness.List("types", *typeList, harness.FloatType)
	return shapes, types, err
}
