package device

// PeerCopier is a Device that exchanges memory with others of its kind without a way through host memory of the program's.
type PeerCopier interface {
	Device
	// CanAccessPeer reports whether kernels of this device could use the memory of peer, after EnablePeerAccess.
	CanAccessPeer(peer Device) (bool, error)
	// EnablePeerAccess lets kernels and copies of this device use all memory of peer, also what is allocated later. Enabling
	// it twice is harmless. It is an ErrUnavailable where CanAccessPeer is false.
	EnablePeerAccess(peer Device) error
	// CopyPeer copies n bytes from src, memory of device from, to dst, memory of this device, ordered on s, a stream of either.
	// It needs no peer access: where there is none the driver takes the way through the host. An event orders the streams
	// of two devices: Wait takes events of other devices of the kind.
	CopyPeer(s Stream, dst Ptr, from Device, src Ptr, n uint64) error
}
