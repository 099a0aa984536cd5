package nccl

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
)

// The kinds of notices.
const (
	hello    = "hello"    // a rank's first: who it is
	welcome  = "welcome"  // rank 0's answer, when all have come
	called   = "called"   // a call is about to be made (Options.Check)
	agreed   = "agreed"   // rank 0's answer, when all are about to make the same
	closing  = "closing"  // a rank was closed, and makes no call from a number on
	late     = "late"     // a call has waited for the time limit
	question = "question" // how far are you with a call?
	answer   = "answer"
	ending   = "ending" // what ended the group
	leaving  = "leaving"
)

// notice is one message between a rank and rank 0, a line of JSON.
type notice struct {
	Kind   string `json:"kind"`
	Token  []byte `json:"token,omitempty"`  // hello
	Rank   int    `json:"rank,omitempty"`   // hello
	Size   int    `json:"size,omitempty"`   // hello
	PID    int    `json:"pid,omitempty"`    // hello
	Host   string `json:"host,omitempty"`   // hello
	Check  bool   `json:"check,omitempty"`  // hello: of Options
	Limit  int64  `json:"limit,omitempty"`  // hello: Options.TimeLimit in nanoseconds
	Number uint64 `json:"number,omitempty"` // of a call
	Call   string `json:"call,omitempty"`
	Called bool   `json:"called,omitempty"` // answer: it was made
	Begun  bool   `json:"begun,omitempty"`  // answer: its stream has come to it
	Peer   int    `json:"peer,omitempty"`   // ending: as in comm.Fault; closing: the rank
	Other  int    `json:"other,omitempty"`
	Reason int    `json:"reason,omitempty"` // ending: index in reasons
	Text   string `json:"text,omitempty"`   // ending: Fault.Detail; hello: why the rank does not join
}

// reasons are the sentinels that can be sent. Of an abort's cause, only the text can.
var reasons = []error{comm.ErrAborted, comm.ErrTimeout, comm.ErrMismatch, comm.ErrPeer, comm.ErrLibrary, comm.ErrUnavailable}

// endingOf is the notice of a fault.
func endingOf(f *comm.Fault) notice {
	n := notice{Kind: ending, Peer: f.Peer, Other: f.Other, Text: f.Detail}
	for i, reason := range reasons {
		if errors.Is(f.Err, reason) {
			n.Reason = i
			break
		}
	}
	if n.Reason == 0 && f.Err != comm.ErrAborted {
		n.Text = strings.TrimPrefix(f.Err.Error(), comm.ErrAborted.Error()+": ")
	}
	return n
}

func (n notice) fault() *comm.Fault {
	f := &comm.Fault{Peer: n.Peer, Other: n.Other, Detail: n.Text, Err: comm.ErrAborted}
	if n.Reason > 0 && n.Reason < len(reasons) {
		f.Err = reasons[n.Reason]
	}
	return f
}

// link is a connection between a rank and rank 0.
type link struct {
	conn net.Conn
	in   *json.Decoder
	rank int    // at the other end
	who  string // its process, for errors

	mu  sync.Mutex // held while a notice is written
	out *json.Encoder
}

func newLink(c net.Conn) *link {
	return &link{conn: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}
}

// sendPatience is how long a notice may wait for a rank that reads nothing. Its silence is noticed otherwise.
const sendPatience = time.Second

func (l *link) send(n notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(sendPatience))
	_ = l.out.Encode(n) // what cannot be sent is a rank's that is gone, of which the reader tells
}

func (l *link) receive() (n notice, err error) {
	err = l.in.Decode(&n)
	return n, err
}

// self is this process in a hello.
func self() notice {
	host, _ := os.Hostname() // only for texts
	return notice{Kind: hello, PID: os.Getpid(), Host: host}
}
