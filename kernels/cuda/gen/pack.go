package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cistern-ml/cistern/internal/lzma"
	"github.com/cistern-ml/cistern/internal/ptx"
)

// packed is how the names of packed modules end.
const packed = ptx.Packed

// packer writes its standard input, packed, to its output. Lines of PTX begin anywhere (pb=0), and the letter before says most of what comes
// next: of all parameters these give the fewest bytes.
var packer = []string{"xz", "--format=lzma", "--lzma1=preset=9e,lc=3,lp=0,pb=0", "--stdout"}

// pack writes a file, if the library's decoder reads the same from it.
func pack(file string, text []byte) error {
	var out, messages bytes.Buffer
	cmd := exec.Command(packer[0], packer[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w %s", file, err, messages.String())
	}
	back, err := lzma.Unpack(out.Bytes())
	if err == nil && !bytes.Equal(back, text) {
		err = errors.New("unpacked it is another text")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// packAgain packs what is packed.
func packAgain() error {
	files, err := filepath.Glob("ptx/*" + packed)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := ptx.ReadFile(file)
		if err != nil {
			return err
		}
		if err := pack(file, text); err != nil {
			return err
		}
	}
	return nil
}
