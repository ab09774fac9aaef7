// Package local deploys the synthesized stacks to LocalStack, with a front that does what LocalStack cannot, so
// that the same programs that run on AWS are tested as a deployment.
//
// What is left out of a template or changed in it is in filter.go, with the reason. The tests of this package are
// the integration tests of the whole service: they need the build tag integration and `make integration`, which
// starts LocalStack, builds the functions and synthesizes the stacks first.
package local
