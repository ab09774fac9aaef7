// Package local deploys the synthesized stacks to LocalStack, with a front that does what LocalStack cannot. So the
// programs that run on AWS are tested as a deployment.
//
// The file filter.go lists all parts of a template that are left out or changed, with the reason. The tests of this
// package are the integration tests of the whole service. They need the build tag integration and `make integration`,
// which starts LocalStack, builds the functions and synthesizes the stacks first.
package local
