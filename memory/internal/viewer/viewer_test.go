package viewer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who changes the page writes these down.
func TestPolicy_HasTheHashesOfThePage(t *testing.T) {
	for element, hash := range map[string]string{"script": scriptHash, "style": styleHash} {
		require.Equal(t, 1, strings.Count(page, "<"+element+">"), element)
		_, rest, _ := strings.Cut(page, "<"+element+">")
		content, _, _ := strings.Cut(rest, "</"+element+">")
		sum := sha256.Sum256([]byte(strings.ReplaceAll(content, "\r\n", "\n"))) // as browsers read it
		require.Equal(t, "sha256-"+base64.StdEncoding.EncodeToString(sum[:]), hash, "write the expected value into viewer.go: %sHash", element)
	}
}

func TestWrite_PutsTheDataBeforeTheScript(t *testing.T) {
	require.Equal(t, 1, strings.Count(page, dataMark))
	require.Equal(t, 1, strings.Count(page, policyMark))
	var b bytes.Buffer
	require.NoError(t, Write(&b, func(w io.Writer) error { _, err := io.WriteString(w, `{"a":1}`); return err }))
	text := b.String()
	require.Less(t, strings.Index(text, dataBegin+`{"a":1}</script>`), strings.Index(text, "<script>"))
	require.Contains(t, text, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-`)
	require.NotContains(t, text, dataMark)
	require.NotContains(t, text, policyMark)
	bad := errors.New("bad")
	require.ErrorIs(t, Write(io.Discard, func(io.Writer) error { return bad }), bad)
}

func TestWritePage_HasTheFirstAnswerOrNone(t *testing.T) {
	for _, first := range [][]byte{nil, []byte(`{"a":1}`)} {
		var b bytes.Buffer
		require.NoError(t, WritePage(&b, first))
		text := b.String()
		require.NotContains(t, text, dataMark)
		require.NotContains(t, text, policyMark)
		require.NotContains(t, text, dataBegin)
		require.Equal(t, first != nil, strings.Contains(text, firstBegin+`{"a":1}</script>`))
		require.Equal(t, first != nil, strings.Contains(text, firstBegin))
		require.Equal(t, 1, strings.Count(text, "<script>"))
	}
	require.Error(t, WritePage(brokenWriter{}, []byte("{}")))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }
