// Package platform says where Cistern runs: on 64-bit little-endian systems whose memory and libraries it knows how to open. Elsewhere
// it does not compile, so that a build ends with one sentence and not with the first thing that happens to be missing. What needs
// an operating system imports it.
package platform
