package checkpoint

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a file has wrong is said in the words of JSON, not in those of this package's types.
func TestDictOf_SaysWhatIsWrongWithoutTheNamesOfTypes(t *testing.T) {
	for text, want := range map[string]string{
		`5`:                                     "what the file has is no state of an optimizer: a number, want an object",
		`{]`:                                    "not a sound checkpoint: a state of an optimizer: invalid character ']' looking for beginning of object key string",
		`{"param_groups":"x","steps":{}}`:       "what the file has is no state of an optimizer: param_groups: a string, want a list",
		`{"param_groups":[],"steps":{"0":1.5}}`: "what the file has is no state of an optimizer: steps: a number 1.5, want an integer of 64 bits",
		`{"param_groups":[],"steps":{},"more":{}}`: `the optimizer: the file has "more", which a state of an optimizer has not`,
	} {
		_, err := dictOf(Content{JSON: json.RawMessage(text)})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "JSON:", text)
		require.NotContains(t, err.Error(), "Go ", text)
	}
}
