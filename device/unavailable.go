package device

import "context"

// unavailable is a Device that could not be opened. Default returns it so that the reason reaches the caller as the error of
// the first call, whatever that is.
type unavailable struct {
	id  ID
	err error
}

func (u *unavailable) ID() ID { return u.id }
func (u *unavailable) Properties() Properties {
	return Properties{Name: u.id.String() + " (unavailable)"}
}
func (u *unavailable) Malloc(uint64) (Ptr, error)        { return 0, u.err }
func (u *unavailable) Free(Ptr) error                    { return u.err }
func (u *unavailable) MemInfo() (MemInfo, error)         { return MemInfo{}, u.err }
func (u *unavailable) DefaultStream() Stream             { return unavailableStream{u} }
func (u *unavailable) NewStream() (Stream, error)        { return nil, u.err }
func (u *unavailable) NewEvent() (Event, error)          { return nil, u.err }
func (u *unavailable) Synchronize(context.Context) error { return u.err }
func (u *unavailable) Close() error                      { return nil }

// unavailableStream is the default stream of an unavailable device.
type unavailableStream struct{ device *unavailable }

func (s unavailableStream) ID() StreamID                      { return 0 }
func (s unavailableStream) Device() Device                    { return s.device }
func (s unavailableStream) CopyToDevice(Ptr, []byte) error    { return s.device.err }
func (s unavailableStream) CopyToHost([]byte, Ptr) error      { return s.device.err }
func (s unavailableStream) Copy(_, _ Ptr, _ uint64) error     { return s.device.err }
func (s unavailableStream) Fill(Ptr, byte, uint64) error      { return s.device.err }
func (s unavailableStream) Record(Event) error                { return s.device.err }
func (s unavailableStream) Wait(Event) error                  { return s.device.err }
func (s unavailableStream) Done() (bool, error)               { return false, s.device.err }
func (s unavailableStream) Synchronize(context.Context) error { return s.device.err }
func (s unavailableStream) Close() error                      { return s.device.err }
