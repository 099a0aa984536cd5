package images

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// FileError says which file is no image that can be read, and why.
type FileError struct {
	File string // "" for what was no file
	Err  error
}

// Error is the file and the reason, as in "images: cat.png: unexpected EOF".
func (e *FileError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("images: %v", e.Err)
	}
	return fmt.Sprintf("images: %s: %v", excerpt.Long(e.File), e.Err)
}

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// ErrFormat is the reason for a file that is neither PNG nor JPEG.
var ErrFormat = errors.New("neither PNG nor JPEG")

// ErrTooLarge is the reason for a file of more than 2^28 pixels, whatever its own size: such a file may be made to exhaust memory.
var ErrTooLarge = errors.New("more than 2^28 pixels")

const maxPixels = 1 << 28

// Decode reads a PNG or a JPEG as uint8 [3, H, W], red, green and blue. Grey becomes three equal channels, of 16 bits the upper eight are taken, and
// transparency is left out, as by torchvision's default loader.
func Decode(r io.Reader) (data.Array, error) {
	a, err := decode(r)
	if err != nil {
		return data.Array{}, &FileError{Err: err}
	}
	return a, nil
}

// Read is Decode of a file.
func Read(fsys fs.FS, name string) (data.Array, error) {
	a, err := read(fsys, name)
	if err != nil {
		return data.Array{}, &FileError{File: name, Err: err}
	}
	return a, nil
}

func read(fsys fs.FS, name string) (a data.Array, err error) {
	if isnil.Value(fsys) {
		return data.Array{}, errors.New(isnil.Why("file system", fsys))
	}
	f, err := fsys.Open(name)
	if err != nil {
		return data.Array{}, reason(err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	return decode(f)
}

// reason is what an error of a file system says beside its path.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func decode(r io.Reader) (data.Array, error) {
	if isnil.Value(r) {
		return data.Array{}, errors.New(isnil.Why("reader", r))
	}
	head := make([]byte, 8)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return data.Array{}, reason(err)
	}
	config, whole := jpeg.DecodeConfig, jpeg.Decode
	switch head = head[:n]; {
	case string(head) == "\x89PNG\r\n\x1a\n":
		config, whole = png.DecodeConfig, png.Decode
	case !bytes.HasPrefix(head, []byte("\xff\xd8")):
		return data.Array{}, ErrFormat
	}
	var seen bytes.Buffer // what the size was read from is read again
	c, err := config(io.TeeReader(io.MultiReader(bytes.NewReader(head), r), &seen))
	if err != nil {
		return data.Array{}, err
	}
	if int64(c.Width)*int64(c.Height) > maxPixels {
		return data.Array{}, fmt.Errorf("%d x %d: %w", c.Width, c.Height, ErrTooLarge)
	}
	img, err := whole(io.MultiReader(&seen, r))
	if err != nil {
		return data.Array{}, err
	}
	return FromImage(img)
}

// FromImage is Decode of an image that is decoded already.
func FromImage(img image.Image) (data.Array, error) {
	if isnil.Value(img) {
		return data.Array{}, &data.ArgumentError{Detail: isnil.Why("image", img)}
	}
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	if w < 1 || h < 1 || int64(w)*int64(h) > maxPixels {
		return data.Array{}, &data.ArgumentError{Detail: fmt.Sprintf("an image of %d x %d pixels", w, h)}
	}
	pixels := make([]uint8, 3*w*h)
	separate(pixels, img, w, h)
	return data.NewArray(pixels, 3, h, w)
}

// separate writes the channels of an image, one after the other.
func separate(to []uint8, img image.Image, w, h int) {
	switch m := img.(type) {
	case *image.NRGBA:
		interleaved(to, m.Pix, m.Stride, w, h)
	case *image.RGBA: // of a PNG without transparency
		if m.Opaque() {
			interleaved(to, m.Pix, m.Stride, w, h)
			return
		}
		one(to, img, w, h)
	case *image.YCbCr, *image.Gray, *image.CMYK: // opaque, and package draw is fast for them
		rgba := image.NewRGBA(image.Rect(0, 0, w, h))
		draw.Draw(rgba, rgba.Rect, img, img.Bounds().Min, draw.Src)
		interleaved(to, rgba.Pix, rgba.Stride, w, h)
	default:
		one(to, img, w, h)
	}
}

// interleaved takes red, green and blue of four bytes each.
func interleaved(to, pix []uint8, stride, w, h int) {
	n := w * h
	red, green, blue := to[:n], to[n:2*n], to[2*n:3*n]
	for y := range h {
		row := pix[y*stride:]
		for x := range w {
			p := row[4*x : 4*x+4]
			i := y*w + x
			red[i], green[i], blue[i] = p[0], p[1], p[2]
		}
	}
}

// one takes pixel by pixel, of whatever kind.
func one(to []uint8, img image.Image, w, h int) {
	n, from := w*h, img.Bounds().Min
	for y := range h {
		for x := range w {
			c := color.NRGBAModel.Convert(img.At(from.X+x, from.Y+y)).(color.NRGBA)
			i := y*w + x
			to[i], to[n+i], to[2*n+i] = c.R, c.G, c.B
		}
	}
}
