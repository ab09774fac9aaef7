package long

import "testing"

func TestLong(t *testing.T) { t.Log("a test") }

func Testing() error { return nil }

func FuzzLong(f *testing.F) { f.Log("a fuzz target") }
