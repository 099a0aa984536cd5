package parallel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// The index of a checkpoint: what a reader has to know before it opens a part.

const (
	indexName    = "index.json"
	indexFormat  = "cistern-sharded-checkpoint"
	indexVersion = 1
)

// index is the file.
type index struct {
	Format     string                    `json:"format"`
	Version    int                       `json:"version"`
	Checksum   string                    `json:"crc32c"` // of the file, with eight zeros in its place
	Save       string                    `json:"save"`   // the number of the Write, which all parts have
	Step       int                       `json:"step"`
	Ranks      int                       `json:"ranks"`
	Stage      int                       `json:"zero"`
	Order      []string                  `json:"order,omitempty"` // in which backward comes to the parameters, once that is learned
	Files      []fileEntry               `json:"files"`           // by rank
	Tensors    map[string]tensorEntry    `json:"tensors"`
	Own        []string                  `json:"own,omitempty"` // of them, those that each part has for its rank: what stands here is rank 0's
	Sections   map[string]sectionEntry   `json:"sections"`      // of Add and AddOwn
	Optimizers map[string]optimizerEntry `json:"optimizers"`

	file string // where it was read, for errors
}

// fileEntry is a part.
type fileEntry struct {
	Name     string `json:"name"`
	Bytes    int64  `json:"bytes"`
	Checksum string `json:"crc32c"`
}

// tensorEntry is where the elements of a tensor are.
type tensorEntry struct {
	DType string      `json:"dtype"`
	Shape []int       `json:"shape"`
	Parts []partEntry `json:"parts"` // in the order of the elements
}

// partEntry is what of a tensor a file has under the tensor's name.
type partEntry struct {
	File  int `json:"file"`
	From  int `json:"from"` // the first element
	Count int `json:"count"`
}

// sectionEntry is a section of Add, which is in the first part, or of AddOwn, which is in all.
type sectionEntry struct {
	Own bool `json:"own"`
}

// optimizerEntry is what of an optimizer is no tensor.
type optimizerEntry struct {
	Optimizer string                `json:"optimizer"`
	Groups    []optim.GroupState    `json:"param_groups"` // "params" are names
	State     map[string]stateEntry `json:"state"`        // by parameter
}

type stateEntry struct {
	Step    int      `json:"step"`
	Tensors []string `json:"tensors"` // as in "exp_avg"
}

const noChecksum = `"crc32c":"00000000"`

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode is the file's content.
func (x *index) encode() ([]byte, error) {
	x.Checksum = "00000000"
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return nil, err
	}
	text = bytes.Replace(text, []byte(`"crc32c": "00000000"`), []byte(noChecksum), 1) // it comes before those of the files
	sum := fmt.Sprintf(`"crc32c":"%08x"`, crc32.Checksum(text, castagnoli))
	return bytes.Replace(text, []byte(noChecksum), []byte(sum), 1), nil
}

var checksumField = regexp.MustCompile(`"crc32c":"[0-9a-f]{8}"`)

// decodeIndex reads what encode made, and refuses everything else.
func decodeIndex(file string, text []byte) (*index, error) {
	unsound := func(format string, args ...any) (*index, error) {
		return nil, &checkpoint.FormatError{File: file, Detail: fmt.Sprintf(format, args...)}
	}
	x := &index{file: file}
	if err := json.Unmarshal(text, x); err != nil {
		return unsound("the index is not what Write writes: %v", err)
	}
	switch at := checksumField.FindIndex(text); {
	case x.Format != indexFormat:
		return nil, &checkpoint.FormatError{File: file, Detail: "the index's format", Wanted: indexFormat, Found: excerpt.Quote(x.Format)}
	case x.Version != indexVersion:
		return nil, &checkpoint.FormatError{File: file, Detail: "the index's version", Wanted: fmt.Sprint(indexVersion), Found: fmt.Sprint(x.Version)}
	case at == nil:
		return unsound("the index has no checksum")
	default:
		plain := append(append(append([]byte(nil), text[:at[0]]...), noChecksum...), text[at[1]:]...)
		if sum := fmt.Sprintf("%08x", crc32.Checksum(plain, castagnoli)); sum != x.Checksum {
			return nil, &checkpoint.FormatError{File: file, Detail: "the checksum: the index is damaged", Wanted: excerpt.Of(x.Checksum), Found: sum}
		}
	}
	if why := x.unsound(); why != "" { // nothing that it claims is trusted: somebody may have made a checksum for it
		return unsound("%s", why)
	}
	return x, nil
}

// unsound is what cannot be in an index.
func (x *index) unsound() string {
	if x.Ranks < 1 || len(x.Files) != x.Ranks {
		return fmt.Sprintf("%d ranks with %d parts", x.Ranks, len(x.Files))
	}
	if x.Step < 0 {
		return fmt.Sprintf("step %d", x.Step)
	}
	if !saveNumber.MatchString(x.Save) {
		return "a number of the Write that there is not: " + excerpt.Quote(x.Save)
	}
	for _, f := range x.Files {
		if filepath.Base(f.Name) != f.Name || !partName.MatchString(f.Name) {
			return "a part of the name " + excerpt.Quote(f.Name)
		}
	}
	for name, t := range x.Tensors {
		if why := t.unsound(x.Ranks); why != "" {
			return "tensor " + excerpt.Quote(name) + ": " + why
		}
	}
	for _, name := range x.Own {
		if _, ok := x.Tensors[name]; !ok {
			return "tensor " + excerpt.Quote(name) + " is of no part"
		}
	}
	return ""
}

// unsound is why the parts are not the tensor.
func (t *tensorEntry) unsound(files int) string {
	count := 1
	for _, n := range t.Shape {
		if n < 0 || n > 0 && count > math.MaxInt/8/n {
			return fmt.Sprintf("a shape that no tensor has: %v", t.Shape)
		}
		count *= n
	}
	at := 0
	for _, p := range t.Parts {
		if p.File < 0 || p.File >= files || p.From != at || p.Count < 0 || p.Count > count-at {
			return fmt.Sprintf("part %d has %d elements from %d on, where those from %d on are due, of %d", p.File, p.Count, p.From, at, count)
		}
		at += p.Count
	}
	if at != count || len(t.Parts) == 0 {
		return fmt.Sprintf("the parts have %d of %d elements", at, count)
	}
	return ""
}

// Names of files. Each Write has its own.

var (
	saveNumber = regexp.MustCompile(`^[0-9a-f]{16}$`)
	partName   = regexp.MustCompile(`^part-[0-9]{5,}-of-[0-9]{5,}-([0-9a-f]{16})\.safetensors$`)
)

// leftover is a part, or what it is written under before it has its name.
var leftover = regexp.MustCompile(`^part-[0-9]{5,}-of-[0-9]{5,}-([0-9a-f]{16})\.safetensors(\.cistern-[0-9a-f]{16}\.tmp)?$`)

func nameOfPart(rank, ranks int, save string) string {
	return fmt.Sprintf("part-%05d-of-%05d-%s.safetensors", rank, ranks, save)
}

// readIndexFile reads an index.
func readIndexFile(sys storage, folder string) (*index, error) {
	file := filepath.Join(folder, indexName)
	f, err := sys.OpenPart(file)
	if err != nil {
		return nil, fileError(file, "open", err)
	}
	defer f.Close() // it was only read
	size, err := f.Size()
	if err != nil {
		return nil, fileError(file, "look at", err)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		return nil, fileError(file, "read", err)
	}
	return decodeIndex(file, text)
}

// under is the tensors of a section, by their names in it.
func (x *index) under(section string) map[string]tensorEntry {
	all := map[string]tensorEntry{}
	for name, t := range x.Tensors {
		if rest, ok := strings.CutPrefix(name, section+"."); ok {
			all[rest] = t
		}
	}
	return all
}
