package nccl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// GreetingBytes is the size of what rank 0 tells the others before they know each other: NCCL's unique id of 128 bytes, and where rank 0
// listens.
const GreetingBytes = 512

// Group is a rank's place in a group that does not exist yet, and the way in which the ranks hear of each other.
type Group struct {
	Rank, Size int
	// Exchange gives rank 0's greeting, of GreetingBytes, to all: rank 0 calls it with the greeting, the others with memory for it, which it has
	// filled when it returns. ctx ends when the ranks have met, or will not: until then rank 0's may go on answering. A group of one rank does
	// without.
	Exchange func(ctx context.Context, greeting []byte) error

	wrong  string // what cannot be right about the way
	finish func() // of rank 0, called when ctx has ended; may be nil
}

func (g Group) check() string {
	switch {
	case g.wrong != "":
		return g.wrong
	case g.Size < 1 || g.Rank < 0 || g.Rank >= g.Size:
		return fmt.Sprintf("rank %d of %d", g.Rank, g.Size)
	case g.Size > 1 && g.Exchange == nil:
		return fmt.Sprintf("a group of %d ranks without a way to exchange the greeting", g.Size)
	}
	return ""
}

// ByComm is the group of the ranks of another Comm, such as one of package mpi's on the host, which broadcasts the greeting, within its own time limit. A rank that does not come to Open should Abort that one, so that the others hear of it at once. That one is free for other uses
// when Open has returned.
func ByComm(c comm.Comm) Group {
	if isnil.Value(c) {
		return Group{}
	}
	return Group{Rank: c.Rank(), Size: c.Size(), Exchange: func(_ context.Context, greeting []byte) (err error) {
		d := c.Device()
		p, err := d.Malloc(uint64(len(greeting)))
		if err != nil {
			return err
		}
		s := d.DefaultStream()
		defer func() { err = errors.Join(err, d.Free(p)) }()
		if err := s.CopyToDevice(p, greeting); err != nil {
			return err
		}
		if err := c.Broadcast(s, comm.Buffer{Ptr: p, Count: len(greeting), Type: dtype.Uint8}, 0); err != nil {
			return err
		}
		return s.CopyToHost(greeting, p)
	}}
}

// pollFile is how often a rank looks for the file.
const pollFile = 20 * time.Millisecond

// ByFile is a group whose ranks see the same folder. Rank 0 writes the file, which must not be there, and removes it when all have come.
func ByFile(rank, size int, path string) Group {
	written := false
	finish := func() {
		if written {
			_ = os.Remove(path) // or the next group says that it is there
		}
	}
	return Group{Rank: rank, Size: size, finish: finish, Exchange: func(ctx context.Context, greeting []byte) error {
		if rank == 0 {
			err := writeNew(path, greeting)
			written = err == nil
			return err
		}
		for {
			b, err := os.ReadFile(path)
			if err == nil && len(b) == len(greeting) {
				copy(greeting, b)
				return nil
			}
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("rank 0 has not written %s: %w", path, ctx.Err())
			case <-time.After(pollFile):
			}
		}
	}}
}

// writeNew makes a file that appears whole, and that was not there.
func writeNew(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // which fails if it is there
	}
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%w: a group that was started before has left it", err)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// ByAddress is a group whose rank 0 listens at "host:port", which the others know, until all have come. Whoever can reach the address may
// ask too: it is for networks that are trusted, as NCCL's own connections are.
func ByAddress(rank, size int, address string) Group {
	return Group{Rank: rank, Size: size, wrong: checkAddress(address), Exchange: func(ctx context.Context, greeting []byte) error {
		if rank == 0 {
			return answerAt(ctx, address, greeting)
		}
		var dialer net.Dialer
		for {
			c, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				_ = c.SetReadDeadline(time.Now().Add(time.Second)) // a connection without one is not worse off than a late answer
				_, err = io.ReadFull(c, greeting)
				_ = c.Close()
			}
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("rank 0 does not answer at %s: %w", address, errors.Join(ctx.Err(), err))
			case <-time.After(pollFile):
			}
		}
	}}
}

// checkAddress returns what is wrong with the text of an address, or "". Hosts are not looked up: they may come later.
func checkAddress(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Sprintf("%q is no address \"host:port\": %v", address, err)
	}
	return ""
}

// answerAt gives the greeting to all that ask, until ctx ends.
func answerAt(ctx context.Context, address string, greeting []byte) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Write(greeting) // who has not got it asks again
			_ = c.Close()
		}
	}()
	return nil
}

// greeting is what rank 0 tells: the id, a token that only the group's ranks know, and addresses, the first of which that answers is taken.
type greeting struct {
	id        [libnccl.UniqueIDBytes]byte
	token     [tokenBytes]byte
	addresses string // with spaces between
}

const tokenBytes = 16

func (g *greeting) encode() []byte {
	b := append(append(g.id[:len(g.id):len(g.id)], g.token[:]...), g.addresses...)
	return append(b, make([]byte, max(0, GreetingBytes-len(b)))...)[:GreetingBytes]
}

func decodeGreeting(b []byte) (g greeting) {
	copy(g.id[:], b)
	copy(g.token[:], b[len(g.id):])
	text, _, _ := bytes.Cut(b[len(g.id)+tokenBytes:], []byte{0})
	g.addresses = string(text)
	return g
}

// mostAddresses is how long their text may be.
const mostAddresses = GreetingBytes - libnccl.UniqueIDBytes - tokenBytes - 1
