package memprof

import (
	"net/http"
	"time"
)

// What a client may take to read an answer.
const (
	pieceBytes = 64 << 10
	pieceTime  = 30 * time.Second // for pieceBytes
	allTime    = 5 * time.Minute
)

// patient writes an answer to a client who has some time for each piece of it, and for all. Where the server cannot set a
// deadline, as in tests without a connection, there is none.
type patient struct {
	w    http.ResponseWriter
	conn *http.ResponseController
	end  time.Time
}

func newPatient(w http.ResponseWriter) *patient {
	return &patient{w: w, conn: http.NewResponseController(w), end: time.Now().Add(allTime)}
}

// Write writes a piece.
func (p *patient) Write(b []byte) (int, error) {
	deadline := time.Now().Add(pieceTime)
	if deadline.After(p.end) {
		deadline = p.end
	}
	_ = p.conn.SetWriteDeadline(deadline)
	return p.w.Write(b)
}
