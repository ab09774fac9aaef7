package dispatch

// Kept is how many goroutines stay for the next nudge.
const Kept = kept
