package mcpserver

// Gives is the schema of a result as the library has it.
var Gives = gives
