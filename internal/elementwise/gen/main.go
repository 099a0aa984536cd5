// Command gen writes what other packages need of the table of element-wise operations. It is run by go generate in the folder of package
// elementwise.
package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

//go:embed templates
var templates embed.FS

// files are the generated files, from the root of the module, by the templates that they are made from.
var files = map[string]string{
	"op.tmpl":            "kernels/op/elementwise_gen.go",
	"cpu.tmpl":           "kernels/cpu/elementwise_gen.go",
	"cuda.tmpl":          "kernels/cuda/elementwise_gen.go",
	"functions.tmpl":     "kernels/cuda/src/functions_gen.h",
	"kerneltest.tmpl":    "kernels/kerneltest/elementwise_gen.go",
	"tensor.tmpl":        "tensor/elementwise_gen.go",
	"tensor_test.tmpl":   "tensor/elementwise_gen_test.go",
	"autograd.tmpl":      "autograd/elementwise_gen.go",
	"autograd_test.tmpl": "autograd/elementwise_gen_test.go",
	"amp.tmpl":           "amp/policy_gen.go",
	"amp_test.tmpl":      "amp/policy_gen_test.go",
	"torch.tmpl":         "internal/elementwise/ops.json",
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("elementwise/gen: ")
	if err := run("../..", elementwise.Ops); err != nil {
		log.Fatal(err)
	}
}

// run writes the files of a list of operations.
func run(root string, ops []elementwise.Op) error {
	all, err := template.New("").Funcs(functions).ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return err
	}
	for name, file := range files {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, name, ops); err != nil {
			return err
		}
		text := b.Bytes()
		if strings.HasSuffix(file, ".go") {
			if text, err = format.Source(text); err != nil {
				return fmt.Errorf("%s: %w\n%s", file, err, b.Bytes())
			}
		}
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(file)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
