package bpe

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func loaded(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load("testdata/vocab.json", "testdata/merges.txt")
	require.NoError(t, err)
	return tok
}

func TestEncode_IsWhatTheReferenceMakes(t *testing.T) {
	var cases []struct {
		Text  string
		IDs   []int64
		Words []string
	}
	text, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	tok := loaded(t)
	for _, c := range cases {
		var words []string
		for rest := c.Text; rest != ""; {
			n := word(rest)
			words, rest = append(words, hex.EncodeToString([]byte(rest[:n]))), rest[n:]
		}
		require.Equal(t, strings.Join(c.Words, " "), strings.Join(words, " "), "%q", c.Text)
		for range 2 { // words are remembered
			ids, err := tok.Encode(c.Text)
			require.NoError(t, err)
			require.Equal(t, c.IDs, append([]int64{}, ids...), "%q", c.Text)
		}
		require.Equal(t, c.Text, tok.Decode(c.IDs))
	}
	require.Equal(t, 256+60+1, tok.Len())
	id, ok := tok.ID("<|endoftext|>")
	require.True(t, ok)
	require.Equal(t, "<|endoftext|>", tok.Decode([]int64{id}))
	require.Equal(t, "\uFFFD", tok.Decode([]int64{999}))
	require.Equal(t, "\uFFFD", tok.Decode([]int64{tok.ids[string(charOf[0xe6])]}), "a part of a character")
}

func FuzzEncode(f *testing.F) {
	tok := loaded(f)
	f.Add("The cat's  mat\n\n")
	f.Add("\xff \xfe")
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, strings.ToValidUTF8(text, "\uFFFD"), tok.Decode(ids))
	})
}

func TestLoad_OfWrongFiles_SaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ vocab, merges, want string }{
		"no JSON":       {`{`, "", "the vocabulary"},
		"twice":         {`{"a":1,"b":1}`, "", "number 1"},
		"negative":      {`{"a":-1}`, "", "number -1"},
		"one part":      {`{"a":1}`, "#version: 0.2\na\n", "line 2"},
		"three parts":   {`{"a":1}`, "a b c", "line 1"},
		"not in vocab":  {`{"a":1}`, "a a", `"aa"`},
		"a late header": {`{"a":1,"aa":2}`, "a a\n#version", "line 2"},
	} {
		_, err := New([]byte(c.vocab), c.merges)
		require.ErrorContains(t, err, c.want, name)
	}
	tok, err := New([]byte(`{"a":0,"aa":1}`), "a a\r\n\r\n")
	require.NoError(t, err)
	ids, err := tok.Encode("aaa")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, ids)
	_, err = tok.Encode("ab")
	require.ErrorContains(t, err, `"ab"`)
	_, err = Load(filepath.Join(t.TempDir(), "none"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load("testdata/vocab.json", filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
