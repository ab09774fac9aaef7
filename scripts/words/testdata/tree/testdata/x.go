package x

var told int
