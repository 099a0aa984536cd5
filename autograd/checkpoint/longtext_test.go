package checkpoint_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

func TestErrors_RepeatTheBeginningOfALongName(t *testing.T) {
	ctx, long := context.Background(), strings.Repeat("x", 1<<20)
	step := checkpoint.Value(new(int))
	for name, err := range map[string]error{
		"ReadFile":  checkpoint.New().Add("step", step).ReadFile(ctx, long),
		"WriteFile": checkpoint.New().Add("step", step).WriteFile(ctx, long),
		"Add":       checkpoint.New().Add(long+".x", step).Write(ctx, new(bytes.Buffer)),
		"section":   checkpoint.New().Add(long, checkpoint.Value[int](nil)).Write(ctx, new(bytes.Buffer)),
	} {
		require.Error(t, err, name)
		require.Less(t, len(err.Error()), 3000, name)
	}
}
