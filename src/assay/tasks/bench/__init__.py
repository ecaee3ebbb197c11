"""Which text model is better on my data?"""
