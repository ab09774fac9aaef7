// Package local puts the synthesised stacks onto LocalStack, with a front that does what LocalStack cannot, so that the
// very programs that are deployed can be tested as a deployment.
//
// What is left out of a template, or changed in it, stands in filter.go, with its reason. The tests of this package are
// the integration tests of the whole: they need the build tag integration and `make integration`, which starts
// LocalStack, builds the functions and synthesises the stacks first.
package local
