package parse

func readCompound(doc []byte) ([]byte, error) { return nil, refuse(Unsupported) }
