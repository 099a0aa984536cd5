// Package ports holds programs that people write with PyTorch, ported line by line to a module of their own (testdata/module) that sees what is
// exported, and a test that they give PyTorch's numbers.
package ports
