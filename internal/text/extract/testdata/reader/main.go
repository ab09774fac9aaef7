// Command reader is the program that the tests of package extract start to read files.
package main

import _ "agentplatform/internal/text/extract"

func main() {}
