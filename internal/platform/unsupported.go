//go:build android || ios || !((linux && riscv64) || ((linux || darwin || windows) && (amd64 || arm64)))

package platform

var _ int = "Cistern runs on linux, darwin and windows with amd64 or arm64, and on linux with riscv64"
