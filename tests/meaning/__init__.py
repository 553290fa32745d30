"""What a program over arrays means, plain and offloaded: patterns, a comparison and a fuzzer."""
