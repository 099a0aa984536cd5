package examples

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

// elementwiseHeading begins the part of docs/parity-ops.md that is made from the rows of internal/elementwise. It ends with the next section.
const elementwiseHeading = "## Element-wise\n"

const elementwiseIntroduction = `
The operations here and below, up to "In place", are methods of ` + "`tensor.Tensor` and of `autograd.Variable`" + ` unless a package is named. Values,
gradients, types of results and refusals were compared with PyTorch 1.13 on the processor; the scripts stand beside the golden files
([` + "`tensor/testdata/make_operations.py`" + `](../tensor/testdata/make_operations.py), [` + "`autograd/testdata/operations.py`" + `](../autograd/testdata/operations.py)).
Written by ` + "`go test ./examples -run ListsEveryOperation -update`" + ` from the rows of [` + "`internal/elementwise`" + `](../internal/elementwise).

| operation | PyTorch | differs |
|---|---|---|
`

// elementwiseTable is that part: a line for each difference, with all operations that have it, and last those that have none.
func elementwiseTable() string {
	var b strings.Builder
	b.WriteString(elementwiseHeading + elementwiseIntroduction)
	differences := []string{}
	for i := range elementwise.Ops {
		if d := elementwise.Ops[i].Differs; d != "" && !slices.Contains(differences, d) {
			differences = append(differences, d)
		}
	}
	for _, d := range append(differences, "") {
		names, peers := []string{}, []string{}
		for i := range elementwise.Ops {
			if o := &elementwise.Ops[i]; o.Differs == d {
				names, peers = append(names, "`"+o.Name+"`"), append(peers, torchName(o))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(names, ", "), strings.Join(peers, ", "), d)
	}
	return b.String()
}

// functional is a function of torch.nn.functional in the expression that a row is compared with, and a choice between two of it.
var functional = regexp.MustCompile(`\bF\.(\w+)\((?:x, (\w+='\w+')\))?`)

// torchName is what PyTorch calls an operation.
func torchName(o *elementwise.Op) string {
	if m := functional.FindStringSubmatch(o.Test.Torch); m != nil {
		name := "`nn.functional." + m[1] + "`"
		if m[2] != "" {
			name += " with `" + m[2] + "`"
		}
		return name
	}
	if p := peer(o.Torch); p != "the same" {
		return p
	}
	return "`" + o.Torch + "`"
}
