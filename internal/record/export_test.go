package record

// Release is the writes by which a run lets go of a file.
var Release = (*Store).release
