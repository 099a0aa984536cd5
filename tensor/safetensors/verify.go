package safetensors

import (
	"context"
	"errors"
	"io"

	"github.com/cistern-ml/cistern/internal/isnil"
	format "github.com/cistern-ml/cistern/internal/safetensors"
)

// Unverified reports whether the file was opened with the option of this name.
func (f *File) Unverified() bool { return f != nil && f.unverified }

// Verify reads all files that have a checksum through, and compares it: a *FormatError says that one of them is damaged. Files without one
// are not read. What was found sound is not read again by another Verify, nor before the first tensor. If ctx is done it ends with its error.
func (f *File) Verify(ctx context.Context) error {
	if f == nil {
		return argumentErr("Verify", "the File is nil")
	}
	if why := isnil.Why("context", ctx); why != "" {
		return argumentErr("Verify", "%s: give context.Background()", why)
	}
	f.closing.RLock()
	defer f.closing.RUnlock()
	if f.closed || f.places == nil {
		return ErrClosed
	}
	for _, p := range f.parts {
		if err := p.verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verify reads the file through, unless that was done. An error that may pass, of the context or the file system, is not remembered.
func (p *part) verify(ctx context.Context) error {
	p.verifying.Lock()
	defer p.verifying.Unlock()
	if p.verified || !p.header.HasChecksum() {
		return p.wrong
	}
	err := located(p.name, "", p.readThrough(ctx))
	var unsound *FormatError
	if p.verified = err == nil || errors.As(err, &unsound); p.verified {
		p.wrong = err
	}
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

func (p *part) readThrough(ctx context.Context) error {
	r, err := format.NewReader(&until{io.NewSectionReader(p.in, 0, p.size), ctx})
	if err != nil {
		return err
	}
	if err := r.Skip(); err != nil {
		return err
	}
	return r.Finish()
}

// until is a reader that ends with a context.
type until struct {
	io.Reader
	ctx context.Context
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(b)
}
