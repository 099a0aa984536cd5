package main

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

// What documentation says of operations.

// comment breaks a text into lines of a comment.
func comment(text string) string {
	const width = 140
	var b strings.Builder
	line := "//"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = "//"
		}
		line += " " + word
	}
	return b.String() + line
}

// doc is the comment of a function of tensors or variables.
func doc(name, does, second string, sentences ...string) string {
	if second != "" {
		does += ", with broadcasting"
	}
	return comment(name + " " + does + ". " + strings.Join(sentences, " "))
}

// inPlaceDoc is the comment of the operation in place, of the tensor or variable that it changes.
func inPlaceDoc(o elementwise.Op, of string, sentences ...string) string {
	return comment(fmt.Sprintf("%sInPlace replaces every element of %s by %s of it. %s", o.Name, of, o.Name, strings.Join(sentences, " ")))
}

// gradDoc is the comment of the gradient by input i.
func gradDoc(o elementwise.Op, i int) string {
	g := o.Gradients[i]
	at := "at a"
	switch {
	case g.OfOutput:
		at = "whose result was a"
	case o.Second != "":
		at = "of a and b by the " + []string{"first", "second"}[i] + " of them"
	}
	s := fmt.Sprintf("%s is the gradient of Tensor.%s %s, from that of the result, grad or g: %s.", methodOf(o.Name+gradSuffix(o, i)), o.Name, at, g.Formula)
	if o.Second != "" {
		s += " It has the shape that a and b broadcast to."
	}
	return comment(s)
}

// saves says what autograd's operation saves.
func saves(o elementwise.Op) string {
	switch {
	case o.Second == "" && uses(o, 0) == "output":
		return "Saves its result."
	case o.Second == "" && uses(o, 0) != "":
		return "Saves v."
	case o.Second == "" || uses(o, 0)+uses(o, 1) == "":
		return "Saves nothing."
	case uses(o, 0) == "input(1)" && uses(o, 1) == "input(0)":
		return "Saves each factor whose partner needs a gradient."
	case uses(o, 0) == uses(o, 1):
		return "Saves both."
	case uses(o, 0)+" | output" == uses(o, 1):
		return "Saves both, and also the result if " + o.Second + " needs a gradient."
	case uses(o, 0) != "":
		return "Saves " + o.Second + ", and also v if " + o.Second + " needs a gradient."
	}
	return "Saves both if " + o.Second + " needs a gradient."
}
