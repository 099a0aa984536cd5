package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

// generated are the texts of all files for a list of operations, by name.
func generated(t *testing.T, ops []elementwise.Op) map[string]string {
	t.Helper()
	root := t.TempDir()
	for _, file := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o777))
	}
	require.NoError(t, run(root, ops))
	texts := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			texts[filepath.ToSlash(name)] = string(text)
		}
		return err
	}))
	return texts
}

func TestFiles_AreThoseOfTheTable(t *testing.T) {
	for name, text := range generated(t, elementwise.Ops) {
		there, err := os.ReadFile(filepath.Join("../../..", filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, string(there), text, "%s: run go generate ./internal/elementwise", name)
	}
}

// A new row changes what each package has, and no other file has to be edited: docs/adding-an-op.md says so.
func TestRow_IsAllThatAnOperationNeeds(t *testing.T) {
	i := slices.IndexFunc(elementwise.Ops, func(o elementwise.Op) bool { return o.Name == "Softsign" })
	added := elementwise.Ops[i]
	added.Name, added.Torch = "Another", "another"
	texts := generated(t, append(slices.Clone(elementwise.Ops), added))
	require.Len(t, texts, len(files))
	for name, text := range texts {
		require.True(t, strings.Contains(text, "Another") || strings.Contains(text, `"another"`), name)
	}
}

func TestRows_SayAllThatIsNeeded(t *testing.T) {
	for _, o := range elementwise.Ops {
		for _, s := range []string{o.Torch, o.Does, o.Autocast} {
			require.NotEmpty(t, s, o.Name)
		}
		if inLayer(elementwise.Autograd, o) {
			require.Len(t, o.Gradients, len(operandsOf(o)), o.Name)
			require.NotEmpty(t, o.Test.Torch, o.Name)
			require.Less(t, o.Test.From, o.Test.To, o.Name)
		}
		require.Equal(t, len(o.Scalars) > 0, len(o.Test.Scalars) > 0, o.Name)
		for _, g := range o.Gradients {
			ways := []bool{hasKernel(g), g.Rule != "", g.None != ""}
			require.Len(t, slices.DeleteFunc(ways, func(there bool) bool { return !there }), 1, "%s: a gradient is a kernel, or a rule, or not there", o.Name)
		}
		for _, k := range kernelsOf(o) {
			byHand := k.Loop != "" || k.Float32 != "" && k.Float64 != "" && !k.Integers()
			require.Equal(t, byHand, k.Go == "", k.ID)
			require.NotEmpty(t, k.Spec, k.ID)
			require.NotEmpty(t, k.CUDA, k.ID)
			require.NotEmpty(t, k.Reference, k.ID)
		}
	}
}
