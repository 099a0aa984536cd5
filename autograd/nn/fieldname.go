package nn

import (
	"strings"
	"unicode"
)

// fieldName is the name of a field in PyTorch's way to write names: words in lower case with underscores between them. A word begins at a
// capital letter behind a small one, and at the last of several capitals if a small one follows it: SelfAttn is self_attn, QKVProj is
// qkv_proj, FC1 is fc1, Conv2D is conv2d, Layer1Norm is layer1_norm.
func fieldName(field string) string {
	rs := []rune(field)
	var b strings.Builder
	for i, r := range rs {
		if i > 0 && unicode.IsUpper(r) && rs[i-1] != '_' {
			ends := unicode.IsLower(rs[i-1])
			begins := i+1 < len(rs) && unicode.IsLower(rs[i+1])
			if ends || begins {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
