"""The small networks that the chapters train and take apart."""
