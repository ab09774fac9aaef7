// Command reader is a program of which package extract makes the process that reads a file.
package main

import _ "agentplatform/internal/extract"

func main() {}
